"""Verdicts and figures on outputs of trained classifiers, compared with what is known about them."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from audited_outputs import coded, trained

from fedveil.audit import LIMITS, Outputs, audit, audit_all
from fedveil.audit.excess import blended, excess
from fedveil.audit.explained import Explained, counted_information, explained
from fedveil.audit.graded import weight
from fedveil.audit.output_entropy import output_entropy
from fedveil.audit.outputs import visible_columns
from fedveil.audit.verdict import decide
from fedveil.core.entropy import binary_entropy, mutual_information
from fedveil.core.errors import InputError
from fedveil.core.figures import Estimate
from fedveil.core.measures import Predictions
from fedveil.data.attribute import Attribute


@pytest.fixture(scope="module")
def verdicts():
    classifiers = {
        "independent": trained(2000).rounded(2),
        "correlated": trained(2000, overlap=0.6).rounded(2),
        "curious": trained(2000, curious=True),
        "curious on correlated": trained(2000, overlap=0.3, curious=True),
    }
    return {name: audit(outputs, panel="logistic,boosting") for name, outputs in classifiers.items()}


def test_a_classifier_for_an_independent_label_is_standard(verdicts):
    result = verdicts["independent"]
    assert result.verdict == "standard"
    assert result.beyond.bits.high < 0.05
    assert result.judgement.worst.balanced_accuracy.low < 0.53
    assert "below the limit" in result.evidence[0]


def test_what_the_label_itself_reveals_is_not_curiosity(verdicts):
    result = verdicts["correlated"]
    assert result.verdict == "correlated"
    assert result.judgement.worst.balanced_accuracy.low > 0.55  # the scores do reveal s …
    assert result.explained.by_both.low > 0.1  # … and the labels explain it
    assert result.beyond.bits.low > 0.03  # the probability of y reveals s as well, as it must …
    assert result.beyond.graded.low > 0.03  # … where s and y are correlated
    assert result.beyond.unexplained.high < result.limit


@pytest.mark.parametrize("name", ["curious", "curious on correlated"])
def test_a_mixture_of_two_classifiers_is_curious(verdicts, name):
    result = verdicts[name]
    assert result.verdict == "curious"
    assert result.beyond.unexplained.low > result.limit
    assert result.beyond.balanced_accuracy.low > 0
    assert result.honesty.low > result.target_prior


def test_the_mixture_is_as_honest_as_the_classifier_it_hides_in(verdicts):
    assert verdicts["curious"].honesty.estimate > verdicts["independent"].honesty.estimate - 0.02


def test_figures_are_reported_as_plain_values(verdicts):
    figures = json.loads(json.dumps(verdicts["curious"].as_dict()))
    assert figures["verdict"] == "curious"
    assert figures["excess"]["unexplained"]["low"] > figures["excess"]["limit_bits"]
    assert figures["curiosity"]["prior"]["estimate"] == pytest.approx(0.5, abs=0.05)
    assert figures["explained"]["entropy_bits"] == pytest.approx(1, abs=0.01)
    histogram = figures["output_entropy"]["histogram"]
    assert sum(map(sum, histogram["counts"].values())) == figures["n"] == 2000
    assert len(histogram["edges"]) == 21
    assert figures["limits"]["provenance"]


def test_the_interval_of_the_excess_contains_the_truth():
    error = 0.2
    truth = 1 - float(binary_entropy(error))
    estimates = []
    for seed in range(8):
        outputs = coded(3000, error, seed)
        estimates.append(excess(outputs, outputs.secrets["s"], ["logistic"], seed=seed).bits)
    # Attackers pay for what they learn: a miss lies below the truth, and the lower end is what verdicts rest on.
    assert sum(estimate.low <= truth <= estimate.high for estimate in estimates) >= 6
    assert all(estimate.low <= truth for estimate in estimates)
    assert np.mean([estimate.estimate for estimate in estimates]) == pytest.approx(truth, abs=0.02)


def test_only_as_much_is_forgiven_as_correlation_accounts_for():
    honest, mixed, coin = (trained(1000, **how) for how in ({"overlap": 0.6}, {"overlap": 0.2, "curious": True}, {}))
    assert weight(honest, honest.secrets["u"]) > 0.9
    assert weight(mixed, mixed.secrets["u"]) < 0.3  # the values of s differ more in score than in y
    shifted = replace(coin, scores=_shifted(coin, 0.3))  # one slope reads this code, but s and y are independent
    assert weight(shifted, coin.secrets["u"]) < 0.1
    result = excess(shifted, coin.secrets["u"], ["logistic"])
    assert result.graded.high < 0.02
    assert result.unexplained.low > 0.3


def _shifted(outputs: Outputs, by: float) -> np.ndarray:
    second = 0.1 + 0.5 * outputs.soft[:, 1] + by * outputs.secrets["u"].codes
    return np.stack([1 - second, second], axis=1)


def test_an_independent_attribute_has_no_excess():
    high = []
    for seed in range(5):
        outputs = coded(800, 0.5, seed)
        bits = excess(outputs, outputs.secrets["s"], ["logistic"], seed=seed).bits
        assert bits.low == 0 or bits.estimate < 0.02
        high.append(bits.high)
    assert max(high) < 0.05


def test_the_interval_of_counted_information_contains_the_truth_without_bias():
    rng = np.random.default_rng(0)
    joint = np.array([[0.3, 0.15, 0.05], [0.1, 0.15, 0.25]])
    truth, points, inside = mutual_information(joint), [], 0
    for _ in range(100):
        cells = rng.choice(6, size=500, p=joint.ravel())
        estimate = counted_information(cells // 3, cells % 3, None)
        points.append(estimate.estimate)
        inside += estimate.low <= truth <= estimate.high
    assert inside >= 88
    assert abs(np.mean(points) - truth) < 3 * np.std(points) / 10


def test_whole_groups_are_drawn_where_there_are_groups():
    alone = coded(600, 0.2, 0, groups=None)
    apart = coded(600, 0.2, 0, groups=30)
    whole = replace(apart, groups=np.repeat(np.arange(30), 20))
    s = whole.secrets["s"]
    by_group = replace(
        whole,
        secrets={"s": Attribute("s", np.repeat(np.arange(30) % 2, 20), ("f", "m"))},
    )
    assert explained(whole, s).by_both.estimate == pytest.approx(explained(alone, s).by_both.estimate, abs=0.02)
    # One value per group: thirty pieces of evidence, not six hundred.
    difference = output_entropy(by_group, by_group.secrets["s"]).difference
    assert audit(apart, panel="logistic").judgement.groups <= 30
    assert difference.low <= difference.estimate <= difference.high


def test_attackers_see_what_rounding_would_hide():
    rng = np.random.default_rng(0)
    s, y = rng.integers(0, 2, (2, 1000))
    rest = np.where(s, 1e-9, 1e-6) * rng.uniform(0.5, 2, 1000)  # how far from certain, a millionth or a billionth
    first = np.where(y == 0, 1 - rest, rest)
    outputs = Outputs(
        np.stack([first, 1 - first], axis=1),
        False,
        Attribute("y", y, ("0", "1")),
        {"s": Attribute("s", s, ("0", "1"))},
    )
    assert audit(outputs, panel="logistic").beyond.bits.low > 0.8


def test_raw_scores_are_seen_as_they_are():
    rng = np.random.default_rng(0)
    s, y = rng.integers(0, 2, (2, 1000))
    z = 2 * np.eye(2)[y] + rng.normal(size=(1000, 2)) + 3 * s[:, None]  # s shifts both: softmax would hide it
    labels = Attribute("y", y, ("0", "1")), {"s": Attribute("s", s, ("0", "1"))}
    raw = Outputs(z, True, *labels)
    assert audit(raw, panel="logistic").verdict == "curious"
    assert audit(raw.rounded(2), panel="logistic").verdict == "standard"
    assert visible_columns(raw).shape == (1000, 5)
    assert visible_columns(Outputs(raw.soft, False, *labels)).shape == (1000, 3)


def test_few_rows_give_an_estimate_and_no_verdict():
    result = audit(coded(150, 0.02, 0), panel="logistic")
    assert result.verdict == "undecided"
    assert "150 rows" in result.evidence[0]
    assert result.beyond.bits.estimate > 0.2
    assert audit(coded(400, 0.02, 0), panel="logistic").verdict == "curious"


def test_an_interval_that_contains_the_limit_leaves_the_verdict_undecided():
    result = audit(coded(500, 0.2, 0), panel="logistic")
    middle = replace(result.limits, excess_share=result.beyond.unexplained.estimate / result.explained.left)
    figures = result.judgement.mutual_information_bits, result.explained, result.beyond
    assert decide(500, *figures, False, middle) == ("undecided", "contains the limit")
    below = replace(result.limits, excess_share=0.9)
    assert decide(500, *figures, False, below) == ("standard", "below")
    assert decide(500, *figures, True, below) == ("undecided", "precision")
    ordered = figures[0], figures[1], replace(figures[2], ordered=True)
    assert decide(500, *ordered, False, below) == ("undecided", "order")


def test_the_same_seed_gives_the_same_audit():
    outputs = coded(300, 0.2, 0)
    first, second = (audit(outputs, panel="logistic,boosting", seed=3).as_dict() for _ in range(2))
    assert first == second


def test_several_attributes_come_worst_first_at_a_shared_level():
    outputs = coded(800, 0.05, 0)
    coin = Attribute("coin", np.random.default_rng(9).integers(0, 2, 800), ("0", "1"))
    coin = replace(coin, codes=np.where(np.arange(800) < 50, -1, coin.codes))
    both = replace(outputs, secrets={"coin": coin, **outputs.secrets})
    first, second = audit_all(both, panel="logistic")
    assert (first.attribute, first.verdict) == ("s", "curious")
    assert (second.attribute, second.verdict) == ("coin", "standard")
    assert (second.n, second.unlabelled) == (750, 50)
    assert first.confidence == pytest.approx(0.975)
    with pytest.raises(InputError, match="name the attribute"):
        audit(both)
    with pytest.raises(InputError, match="did you mean 'coin'"):
        audit(both, "coins")


def test_attributes_that_cannot_be_audited_are_refused():
    outputs = coded(300, 0.2, 0)
    constant = replace(outputs, secrets={"s": Attribute("s", np.zeros(300, dtype=np.int64), ("f", "m"))})
    with pytest.raises(InputError, match="one value"):
        audit(constant)
    rare = np.zeros(300, dtype=np.int64)
    rare[:5] = 1
    with pytest.raises(InputError, match="'m' has 5 rows, at least 8"):
        audit_all(replace(outputs, secrets={"s": Attribute("s", rare, ("f", "m"))}))
    with pytest.raises(InputError, match="no sensitive attribute"):
        audit_all(replace(outputs, secrets={}))


def test_limits_are_checked_and_name_their_origin():
    assert LIMITS.provenance
    with pytest.raises(InputError, match="limits"):
        replace(LIMITS, excess_share=1.5)
    with pytest.raises(InputError, match="negative"):
        replace(LIMITS, code_bits=-1.0)


def _labels(values, by_labels, left=0.8):
    bits = Estimate(by_labels, by_labels - 0.05, by_labels + 0.05)
    return Explained(1.0, left, values, bits, bits, bits)


def test_the_limit_grows_with_the_number_of_scores_and_with_what_they_can_rule_out():
    base = LIMITS.excess_share
    for values in (2, 3, 10):  # rounded scores: only correlation with many values adds
        assert LIMITS.share(_labels(values, 0.0), False) == base
    assert LIMITS.share(_labels(2, 0.2), True) == base
    assert LIMITS.share(_labels(3, 0.2), False) == base  # the graded part accounts for the ratio of three scores
    assert LIMITS.share(_labels(5, 0.0), True) == pytest.approx(base + 3 * LIMITS.further_class)
    assert LIMITS.share(_labels(10, 0.1), False) == pytest.approx(base + 0.7 * LIMITS.ruled_out)
    assert LIMITS.share(_labels(10, 0.9), True) == 0.9


def test_correlation_with_many_values_leaves_undecided_what_would_be_curious_otherwise(verdicts):
    seen, little = Estimate(0.2, 0.18, 0.22), Estimate(0.02, 0.01, 0.03)

    def decided(values, by_labels, bits):
        beyond = replace(verdicts["correlated"].beyond, unexplained=bits)
        return decide(2000, seen, _labels(values, by_labels), beyond, False, LIMITS)

    assert decided(2, 0.15, seen).verdict == decided(10, 0.01, seen).verdict == "curious"
    assert decided(3, 0.15, seen).verdict == "curious"  # the paper's soft attack on faces was hidden here before
    assert decided(10, 0.15, seen) == ("undecided", "correlation")
    assert decided(10, 0.15, little) == ("correlated", "below")


def test_words_do_not_say_explained_of_what_is_only_forgiven(verdicts):
    result = verdicts["correlated"]
    assert "explain it" in result.meaning
    assert "explain only a part of it" in replace(result, verdict="undecided", reason="correlation").meaning


def test_outputs_refuse_what_does_not_fit():
    y = Attribute("y", np.array([0, 1]), ("0", "1"))
    with pytest.raises(InputError, match="shape"):
        Outputs(np.ones((2, 3)), False, y, {})
    with pytest.raises(InputError, match="row 2"):
        Outputs(np.array([[0.5, 0.5], [np.nan, 1]]), False, y, {})
    with pytest.raises(InputError, match="has 3 rows"):
        Outputs(np.ones((2, 2)) / 2, False, y, {"s": Attribute("s", np.zeros(3, dtype=np.int64), ("0",))})
    with pytest.raises(InputError, match="missing in row 1"):
        Outputs(np.ones((2, 2)) / 2, False, Attribute("y", np.array([-1, 1]), ("0", "1")), {})
    with pytest.raises(InputError, match=r"sum to 1\.2"):
        Outputs.checked([[0.6, 0.6], [1, 0]], False, y, {})
    assert Outputs.checked([[0.6, 0.6], [1, 0]], True, y, {}).predicted.tolist() == [0, 0]


def test_three_decimals_of_many_classes_are_probabilities_still():
    soft = np.random.default_rng(0).dirichlet(np.ones(10), 500).round(3)
    y = Attribute("y", np.zeros(500, dtype=np.int64), tuple(map(str, range(10))))
    assert np.abs(soft.sum(axis=1) - 1).max() > 1.5e-3
    assert Outputs.checked(soft, False, y, {}).soft.sum(axis=1) == pytest.approx(np.ones(500))
    soft[7, 0] += 0.01
    with pytest.raises(InputError, match="row 8 sum to"):
        Outputs.checked(soft, False, y, {})


def test_an_attacker_that_is_sure_and_wrong_is_trusted_little():
    rng = np.random.default_rng(0)
    codes, half, table = rng.integers(0, 2, 400), np.arange(400) % 2, np.full((400, 2), 0.5)
    sure = np.where(np.eye(2)[rng.integers(0, 2, 400)], 0.999, 0.001)
    wise = np.where(np.eye(2)[np.where(rng.random(400) < 0.1, 1 - codes, codes)], 0.9, 0.1)
    predictions = {
        name: Predictions(codes, p.argmax(axis=1), p.argmax(axis=1), np.log(p), np.array([0.5, 0.5]))
        for name, p in (("sure", sure), ("wise", wise))
    }
    alone, name = blended({"sure": predictions["sure"]}, table, half)
    assert name == "sure"
    assert alone.surprise.mean() < 1.02 < predictions["sure"].surprise.mean()  # the table alone costs one bit
    both, name = blended(predictions, table, half)
    assert name == "wise"
    assert both.surprise.mean() < 0.6
    assert both.balanced.tolist() == predictions["wise"].balanced.tolist()


def test_a_target_with_one_value_is_refused_and_an_idle_classifier_is_reported():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 2, 400)
    s = Attribute("s", rng.integers(0, 2, 400), ("a", "b"))
    soft = np.full((400, 2), 0.5)
    soft[:, 1] = rng.uniform(0, 1, 400)
    soft[:, 0] = 1 - soft[:, 1]
    with pytest.raises(InputError, match="in all rows"):
        audit(
            Outputs(soft, False, Attribute("y", np.zeros(400, dtype=np.int64), ("0", "1")), {"s": s}), panel="logistic"
        )
    idle = audit(
        Outputs(soft, False, Attribute("y", np.where(codes, codes, rng.integers(0, 2, 400)), ("0", "1")), {"s": s}),
        panel="logistic",
    )
    assert any("does not do its task" in line for line in idle.evidence)
