from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest

from fedveil.certificates import (
    attribute_dp_delta,
    attribute_dp_epsilon,
    certify_information_privacy,
    corrected_leakage_bound,
    information_privacy_epsilon,
    is_attribute_dp,
    largest_leakage,
    post_process,
    printed_corollary1_epsilon,
    printed_leakage_bound,
)
from fedveil.certificates.information_privacy import (
    dp_epsilon_from_information_privacy,
    information_privacy_epsilon_from_dp,
)
from fedveil.core.entropy import entropy
from fedveil.core.errors import InputError

RandomJoint = Callable[..., np.ndarray]


def channel_of(joint: np.ndarray) -> np.ndarray:
    return np.asarray(joint / joint.sum(axis=1, keepdims=True))


def naive_delta(channel: np.ndarray, epsilon: float) -> float:
    """Try every event and every pair of values."""
    worst = 0.0
    for size in range(channel.shape[1] + 1):
        for event in itertools.combinations(range(channel.shape[1]), size):
            mass = channel[:, list(event)].sum(axis=1)
            worst = max(worst, max(p - math.exp(epsilon) * q for p in mass for q in mass))
    return worst


def test_corrected_leakage_bound_holds_where_the_printed_one_fails(random_joint: RandomJoint) -> None:
    rng = np.random.default_rng(0)
    printed_fails = informative = 0
    for _ in range(4000):
        joint = random_joint(rng)
        epsilon, bits = information_privacy_epsilon(joint), entropy(joint.sum(axis=1))
        leaked = largest_leakage(joint)
        bound = corrected_leakage_bound(epsilon, bits)
        assert leaked <= bound + 1e-9
        informative += bound < bits
        printed_fails += leaked > printed_leakage_bound(epsilon, bits) + 1e-9
    assert printed_fails > 400
    assert informative > 400


def test_information_privacy_and_attribute_dp_imply_each_other(random_joint: RandomJoint) -> None:
    rng = np.random.default_rng(1)
    factors = []
    for _ in range(3000):
        joint = random_joint(rng)
        private, dp = information_privacy_epsilon(joint), attribute_dp_epsilon(channel_of(joint))
        assert dp <= dp_epsilon_from_information_privacy(private) + 1e-9
        assert private <= information_privacy_epsilon_from_dp(dp) + 1e-9
        factors.append(dp / private)
    # ε alone would not do: the factor 2 is needed.
    assert max(factors) > 1.5


def test_corollary_1_promises_what_does_not_hold(random_joint: RandomJoint) -> None:
    rng = np.random.default_rng(2)
    broken = 0
    for _ in range(2000):
        joint = random_joint(rng)
        claimed = printed_corollary1_epsilon(joint.sum(axis=1))
        broken += information_privacy_epsilon(joint) > claimed + 1e-9
        ratio = channel_of(joint) / joint.sum(axis=0)
        assert ratio.max() <= math.exp(claimed) + 1e-9  # the side that it bounds holds for any mechanism
    assert broken > 100
    published = np.diag([0.5, 0.5])
    assert printed_corollary1_epsilon([0.5, 0.5]) == pytest.approx(math.log(2))
    assert information_privacy_epsilon(published) == math.inf


def test_randomised_response_has_the_closed_form() -> None:
    for epsilon in (0.0, 0.1, 1.0, 3.0):
        p = math.exp(epsilon) / (1.0 + math.exp(epsilon))
        channel = np.array([[p, 1.0 - p], [1.0 - p, p]])
        assert attribute_dp_epsilon(channel) == pytest.approx(epsilon, abs=1e-12)
        assert attribute_dp_delta(channel, epsilon) == pytest.approx(0.0, abs=1e-12)
        assert attribute_dp_delta(channel, 0.0) == pytest.approx(2.0 * p - 1.0, abs=1e-12)
        expected = max(math.log(2.0 * p), -math.log(2.0 * (1.0 - p)))
        assert information_privacy_epsilon(0.5 * channel) == pytest.approx(expected, abs=1e-12)


def test_delta_agrees_with_trying_every_event(random_joint: RandomJoint) -> None:
    rng = np.random.default_rng(3)
    for _ in range(150):
        channel = channel_of(random_joint(rng, values=3, outputs=5))
        for epsilon in (0.0, 0.3, 1.5):
            delta = attribute_dp_delta(channel, epsilon)
            assert delta == pytest.approx(naive_delta(channel, epsilon), abs=1e-12)
            assert is_attribute_dp(channel, epsilon, delta)
            assert delta < 1e-9 or not is_attribute_dp(channel, epsilon, 0.99 * delta)
        exact = attribute_dp_epsilon(channel)
        if math.isfinite(exact):
            assert is_attribute_dp(channel, exact)
    assert attribute_dp_delta(np.eye(2), math.inf) == 1.0
    assert attribute_dp_delta([[0.5, 0.5], [0.9, 0.1]], math.inf) == 0.0
    assert attribute_dp_delta([[0.5, 0.5], [0.9, 0.1]], 800.0) == 0.0


def test_post_processing_never_costs_privacy(random_joint: RandomJoint) -> None:
    rng = np.random.default_rng(4)
    gained = 0
    for _ in range(1000):
        channel = channel_of(random_joint(rng))
        after = post_process(channel, rng.dirichlet(np.full(4, 0.3), size=channel.shape[1]))
        assert attribute_dp_epsilon(after) <= attribute_dp_epsilon(channel) + 1e-9
        for epsilon in (0.0, 0.5):
            assert attribute_dp_delta(after, epsilon) <= attribute_dp_delta(channel, epsilon) + 1e-12
        gained += attribute_dp_epsilon(after) < attribute_dp_epsilon(channel) - 1e-3
    assert gained > 100
    with pytest.raises(InputError, match="kernel"):
        post_process(np.eye(2), np.eye(3))


def test_values_and_outputs_that_never_occur_do_not_count() -> None:
    joint = np.array([[0.25, 0.25, 0.0], [0.25, 0.25, 0.0], [0.0, 0.0, 0.0]])
    assert information_privacy_epsilon(joint) == 0.0
    assert largest_leakage(joint) == pytest.approx(0.0, abs=1e-12)
    assert attribute_dp_epsilon([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0]]) == 0.0


def test_infinite_epsilon_leaks_at_most_everything() -> None:
    assert corrected_leakage_bound(math.inf, 1.5) == 1.5
    assert corrected_leakage_bound(0.0, 1.5) == 0.0
    assert printed_leakage_bound(0.1, 2.0) < 0.0
    half = math.log(2.0)
    assert corrected_leakage_bound(half, 3.0) == pytest.approx(0.5 * 3.0 + 0.5)
    assert printed_leakage_bound(half, 3.0) == pytest.approx(-3.0 + 2.0)


def test_a_known_law_is_certified() -> None:
    certificate = certify_information_privacy([[0.3, 0.2], [0.2, 0.3]], "randomised response")
    assert certificate.bound == pytest.approx(math.log(0.5 / 0.4))  # p(u|ŷ) = 0.4 against p(u) = 0.5
    assert certificate.assumptions["basis"] == "randomised response"


def test_nonsense_is_refused() -> None:
    with pytest.raises(InputError, match="two axes"):
        information_privacy_epsilon([0.5, 0.5])
    with pytest.raises(InputError, match="summing to 1"):
        attribute_dp_epsilon([[0.5, 0.6], [0.5, 0.5]])
    with pytest.raises(InputError, match="negative"):
        attribute_dp_delta(np.eye(2), -1.0)
    with pytest.raises(InputError, match="negative"):
        corrected_leakage_bound(-1.0, 1.0)
