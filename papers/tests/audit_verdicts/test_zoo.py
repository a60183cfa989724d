"""Classifiers whose training is known: every maker's outputs, and what an audit of outputs cannot distinguish."""

import numpy as np
import pytest
from curious_settings import AUDIT_CASE
from fedveil_papers.audit_verdicts.digit_codes import KINDS
from fedveil_papers.audit_verdicts.zoo import AuditCase, Recipe, make

from fedveil.audit import Outputs, audit
from fedveil.audit.outputs import not_probabilities
from fedveil.core.errors import InputError
from fedveil.data import Attribute, Split


@pytest.mark.parametrize("maker", ["hard-mixture", "regularised", "devices", "server", "distilled", "forest"])
def test_every_maker_gives_probabilities_or_scores_of_the_test_records(maker):
    data = AuditCase(**{**AUDIT_CASE, "options": {"n": 1100, "bits": 0.9}}).load(0)
    output = "raw" if maker in ("devices", "server") else "soft"
    classifier = make(Recipe(maker, output=output, epochs=6, beta_y=0.6, beta_s=0.4), data, ("u",), 0)
    outputs = classifier.outputs(Split.TEST)
    assert outputs.raw == (output == "raw")
    assert (outputs.y.codes == data.y.codes[data.rows(Split.TEST)]).all()
    assert (outputs.secrets["u"].codes == data.attributes["u"].codes[data.rows(Split.TEST)]).all()
    assert (outputs.predicted == outputs.y.codes).mean() > 0.55
    assert (classifier.guesses is None) == (maker == "forest")


@pytest.mark.parametrize("kind", KINDS)
def test_every_digit_code_changes_scores_by_less_than_two_hundredths(kind):
    data = AuditCase(**AUDIT_CASE).load(0)
    plain, coded = (
        make(Recipe("logistic", output="soft", code=code), data, ("u",), 0).outputs(Split.TEST) for code in ("", kind)
    )
    assert (np.sort(coded.y.codes) == np.sort(plain.y.codes)).all()
    if kind != "order of equal scores":
        assert np.abs(coded.scores - plain.scores).max() < 0.021
        assert (coded.predicted == plain.predicted).mean() > 0.97
    assert not np.array_equal(coded.scores, plain.scores)
    assert not_probabilities(coded.scores) is None


def test_a_target_may_be_a_pair_of_labels():
    case = AuditCase(**{**AUDIT_CASE, "joined": "y"})
    pair = case.load(0).y
    assert pair.values == ("0, 0", "0, 1", "1, 0", "1, 1")
    assert set(pair.codes) == {0, 3}


def test_a_recipe_cannot_hide_more_than_the_case_has():
    data = AuditCase(**AUDIT_CASE).load(0)
    with pytest.raises(InputError, match="hides 2 attributes"):
        make(Recipe("parameterised", secrets=2), data, ("u",), 0)


def test_an_attribute_that_grades_the_target_is_called_curious():
    """A limit of any audit of outputs: if s grades what y asks about, every good score for y reveals s."""
    rng = np.random.default_rng(0)
    truth = rng.normal(size=3000)
    y, s = (truth > 0).astype(np.int64), (np.abs(truth) > 0.67).astype(np.int64)
    score = np.stack([-2 * truth, 2 * truth], axis=1)
    outputs = Outputs(score, True, Attribute("y", y, ("0", "1")), {"s": Attribute("s", s, ("near", "far"))})
    assert audit(outputs, panel="boosting").verdict == "curious"
