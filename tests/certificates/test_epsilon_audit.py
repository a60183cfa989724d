from __future__ import annotations

import math

import numpy as np
import pytest

from fedveil.certificates import (
    attribute_dp_delta,
    attribute_dp_epsilon,
    audit_attribute_dp,
    audit_information_privacy,
    information_privacy_epsilon,
)
from fedveil.core.errors import InputError

CHANNEL = np.array([[0.7, 0.2, 0.1], [0.2, 0.5, 0.3]])
PRIOR = np.array([0.4, 0.6])


def draw(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    u = (rng.uniform(size=n) < PRIOR[1]).astype(int)
    y = (rng.uniform(size=n)[:, None] > CHANNEL.cumsum(axis=1)[u]).sum(axis=1)
    return y, u


def test_lower_bounds_stay_below_the_truth_at_their_confidence() -> None:
    rng = np.random.default_rng(0)
    trials, confidence = 250, 0.8
    dp, private = attribute_dp_epsilon(CHANNEL), information_privacy_epsilon(PRIOR[:, None] * CHANNEL)
    dp_over = private_over = proved = naive_over = 0
    for _ in range(trials):
        y, u = draw(600, rng)
        epsilon = audit_attribute_dp(y, u, rng, confidence=confidence).epsilon
        dp_over += epsilon > dp
        proved += epsilon > 0.3 * dp
        private_over += audit_information_privacy(y, u, rng, confidence=confidence).epsilon > private
        rates = np.array([[np.mean(y[u == value] == code) for code in range(3)] for value in (0, 1)])
        naive_over += attribute_dp_epsilon(rates) > dp
    assert dp_over <= (1.0 - confidence) * trials
    assert private_over <= (1.0 - confidence) * trials
    assert proved > 0.9 * trials
    assert naive_over > 0.4 * trials  # plain frequencies overstate as often as not


def test_many_outputs_and_no_leak_prove_nothing() -> None:
    # An event chosen and counted on the same records would often look telling here.
    rng = np.random.default_rng(1)
    trials, positive = 100, 0
    for _ in range(trials):
        y, u = rng.integers(0, 40, 800), rng.integers(0, 2, 800)
        positive += audit_attribute_dp(y, u, rng, confidence=0.9).epsilon > 0.0
        positive += audit_information_privacy(y, u, rng, confidence=0.9).epsilon > 0.0
    assert positive <= 0.1 * 2 * trials


def test_leaky_channels_are_detected() -> None:
    rng = np.random.default_rng(2)
    y, u = draw(20_000, rng)
    truth = attribute_dp_epsilon(CHANNEL)
    assert 0.85 * truth < audit_attribute_dp(y, u, rng).epsilon <= truth
    private = information_privacy_epsilon(PRIOR[:, None] * CHANNEL)
    assert 0.8 * private < audit_information_privacy(y, u, rng).epsilon <= private
    clear = audit_attribute_dp(u, u, rng)
    assert clear.epsilon > 5.0
    assert "no promise" in str(clear)
    assert clear.as_dict()["epsilon_at_least"] == clear.epsilon


def test_scores_are_searched_for_the_best_column_and_threshold() -> None:
    rng = np.random.default_rng(3)
    u = rng.integers(0, 3, 9_000)
    scores = np.column_stack([rng.standard_normal(len(u)), 2.0 * (u == 2) + rng.standard_normal(len(u))])
    bound = audit_attribute_dp(scores, u, rng)
    assert bound.epsilon > 1.5
    assert "output[1]" in bound.event
    assert audit_information_privacy(scores, u, rng).epsilon > 0.8


def test_delta_lowers_the_bound_and_keeps_it_valid() -> None:
    rng = np.random.default_rng(4)
    y, u = draw(20_000, rng)
    strict = audit_attribute_dp(y, u, np.random.default_rng(5)).epsilon
    loose = audit_attribute_dp(y, u, np.random.default_rng(5), delta=0.2)
    assert 0.0 < loose.epsilon < strict
    assert attribute_dp_delta(CHANNEL, loose.epsilon) >= 0.2
    assert loose.delta == 0.2


def test_the_same_generator_gives_the_same_answer() -> None:
    y, u = draw(500, np.random.default_rng(6))
    first, second = (audit_attribute_dp(y, u, np.random.default_rng(7)) for _ in range(2))
    assert first == second


def test_nonsense_is_refused() -> None:
    rng = np.random.default_rng(8)
    with pytest.raises(InputError, match="per record"):
        audit_attribute_dp([0, 1], [0, 1], rng)
    with pytest.raises(InputError, match="at least two values"):
        audit_attribute_dp([0, 1, 0, 1], [0, 0, 0, 0], rng)
    with pytest.raises(InputError, match="finite"):
        audit_information_privacy([0.0, math.nan, 0.0, 1.0], [0, 1, 0, 1], rng)
    with pytest.raises(InputError, match="delta"):
        audit_attribute_dp([0, 1, 0, 1], [0, 1, 0, 1], rng, delta=1.0)


def test_an_event_may_be_chosen_on_some_records_and_counted_on_others() -> None:
    rng = np.random.default_rng(7)
    y, u = draw(4000, rng)
    leaky = audit_attribute_dp(y[:2000], u[:2000], rng, counted_on=(y[2000:], u[2000:]))
    assert 0.5 < leaky.epsilon <= attribute_dp_epsilon(CHANNEL)
    assert leaky.records == 2000
    # What looks telling on the first records and is nothing on the others proves nothing.
    noise = rng.integers(0, 3, 2000)
    for audit in (audit_attribute_dp, audit_information_privacy):
        assert audit(y[:2000], u[:2000], rng, counted_on=(noise, u[2000:])).epsilon == 0.0
        with pytest.raises(InputError, match="same form"):
            audit(y, u, rng, counted_on=(noise.astype(float), u[2000:]))
