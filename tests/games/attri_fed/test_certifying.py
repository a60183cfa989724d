"""The rate certificate's parts: a helper of counts and a network, and people counted once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fedveil.core.errors import InputError
from fedveil.data import Attribute, AttributeData, Split
from fedveil.games import AttriFed, ReleasedRecords, Undefended
from fedveil.games.attri_fed.certifying import fit_code, fit_helper, held_out, rate_certificates

PEOPLE, EACH = 36, 40


def drawn(n, seed):
    rng = np.random.default_rng(seed)
    rows = np.stack([rng.integers(-2, 3, n), rng.integers(-2, 3, n)], axis=1).astype(float)
    law = np.random.default_rng(9).dirichlet(np.full(4, 0.3), 25)  # nothing smooth: a small network learns it slowly
    cells = ((rows[:, 0] + 2) * 5 + rows[:, 1] + 2).astype(int)
    return (rows, np.array([rng.choice(4, p=law[cell]) for cell in cells])), law[cells]


def test_the_helper_comes_near_the_true_law_and_its_rows_are_laws():
    (train, _), (validation, _), (test, truth) = (drawn(n, s) for n, s in ((300, 0), (3000, 1), (3000, 2)))
    log_probabilities = fit_helper(train, validation, 4)(test[0])
    assert np.allclose(np.exp(log_probabilities).sum(axis=1), 1.0)
    at_label = (np.arange(3000), test[1])
    assert -log_probabilities[at_label].mean() < -np.log(truth[at_label]).mean() + 0.03


def test_the_helper_answers_for_rows_never_seen_and_for_minus_zero():
    (train, _), (validation, _) = (drawn(n, s) for n, s in ((300, 0), (3000, 1)))
    helper = fit_helper(train, validation, 4)
    assert np.isfinite(helper(np.array([[70.0, -3.0]]))).all()
    assert np.array_equal(helper(np.array([[0.0, 1.0]])), helper(np.array([[-0.0, 1.0]])))


def several_records_each() -> tuple[ReleasedRecords, AttributeData]:
    """People with many records each, who send the task's value."""
    rng = np.random.default_rng(0)
    person = np.repeat(np.arange(PEOPLE), EACH)
    secret = rng.integers(0, 2, PEOPLE)[person]
    task = Attribute("v", rng.integers(0, 2, len(person)), ("0", "1"))
    split = np.repeat([0, 1, 2], PEOPLE // 3 * EACH).astype(np.int8)
    x = rng.normal(size=(len(person), 2)).astype(np.float32)
    data = AttributeData(x, {"u": Attribute("u", secret, ("a", "b"))}, split, y=task, groups=person)
    values = {part: task.codes[data.rows(part)][:, None].astype(float) for part in Split}
    senders = {part: np.zeros(len(data.rows(part)), dtype=np.int64) for part in Split}
    return ReleasedRecords(values, senders), data


def test_records_of_one_person_count_once() -> None:
    released, data = several_records_each()
    code = fit_code(released, 1)
    assert len(held_out(released, data, "u", code, "sender unknown")) == PEOPLE // 3
    assert len(held_out(released, replace(data, groups=None), "u", code, "sender unknown")) == PEOPLE // 3 * EACH


def test_numbers_beyond_the_reach_are_refused() -> None:
    released, _ = several_records_each()
    values = {**released.values, Split.TEST: released.values[Split.TEST] + 5}
    with pytest.raises(InputError, match="clamp representations to the reach"):
        fit_code(replace(released, values=values), 1)


def test_a_game_certifies_exactly_where_its_releases_are_codes_and_all_labels_are_known() -> None:
    released, data = several_records_each()

    def not_needed() -> ReleasedRecords:
        raise AssertionError("a game that proves nothing asks for nothing")

    game = AttriFed("u", reach=1)
    expected = rate_certificates(data, released, "u", 1, seed=3)
    assert game.certificates_on(data, lambda: released, "u", 3) == expected
    assert {certificate.quantity for certificate in expected} == {
        "information (bits)",
        "accuracy",
        "information (bits), sender unknown",
        "accuracy, sender unknown",
    }
    for observer in ("sender known", "sender unknown"):
        assert sum(certificate.assumptions["observer"] == observer for certificate in expected) == 2
    assert replace(game, variant="none").certificates_on(data, not_needed, "u", 3) == ()
    assert game.certificates_on(replace(data, y=None), not_needed, "u", 3) == ()
    codes = data.attribute("u").codes.copy()
    codes[-1] = -1
    unlabelled = replace(data, attributes={"u": replace(data.attribute("u"), codes=codes)})
    assert game.certificates_on(unlabelled, not_needed, "u", 3) == ()
    assert Undefended().certificates_on(data, not_needed, "u", 3) == ()
