from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr

from fedveil.certificates import (
    advantage_from_balanced_accuracy,
    attribute_dp_delta,
    balanced_accuracy_from_advantage,
    certify_accuracy_from_dp,
    dp_accuracy_bound,
    dp_advantage_bound,
    dp_balanced_accuracy_bound,
    replace_one_from_add_remove,
)
from fedveil.certificates.differential_privacy import gaussian_delta
from fedveil.core.errors import InputError


def randomised_response(values: int, epsilon: float) -> np.ndarray:
    channel = np.full((values, values), 1.0 / (math.exp(epsilon) + values - 1))
    np.fill_diagonal(channel, math.exp(epsilon) / (math.exp(epsilon) + values - 1))
    return channel


def test_no_attacker_beats_the_bounds_on_thousands_of_channels(random_joint: Callable[..., np.ndarray]) -> None:
    rng = np.random.default_rng(0)
    informative = 0
    for _ in range(3000):
        joint = random_joint(rng)
        prior = joint.sum(axis=1)
        channel = joint / prior[:, None]
        values = len(prior)
        epsilon = float(rng.exponential(1.0))
        delta = attribute_dp_delta(channel, epsilon)
        accuracy = float(joint.max(axis=0).sum())
        balanced = float(channel.max(axis=0).sum() / values)
        bound = dp_accuracy_bound(epsilon, delta, prior)
        assert accuracy <= bound + 1e-9
        assert balanced <= dp_balanced_accuracy_bound(epsilon, delta, values) + 1e-9
        if values == 2:
            assert 0.5 * np.abs(channel[0] - channel[1]).sum() <= dp_advantage_bound(epsilon, delta) + 1e-9
        informative += bound < 0.999
    assert informative > 1000


@given(st.floats(0.0, 8.0), st.integers(2, 12), st.floats(0.01, 0.99))
def test_randomised_response_attains_them(epsilon: float, values: int, most: float) -> None:
    channel = randomised_response(values, epsilon)
    assert dp_balanced_accuracy_bound(epsilon, 0.0, values) == pytest.approx(channel[0, 0], abs=1e-12)
    odds = most * math.exp(epsilon)
    best_posterior = odds / (odds + 1.0 - most) if most >= 0.5 else None
    if best_posterior is not None:
        assert dp_accuracy_bound(epsilon, 0.0, [most, 1.0 - most]) == pytest.approx(best_posterior, abs=1e-12)


@given(st.floats(0.0, 5.0), st.floats(0.1, 10.0))
def test_the_gaussian_mechanism_never_exceeds_it(epsilon: float, noise: float) -> None:
    total_variation = 2.0 * float(ndtr(0.5 / noise)) - 1.0
    assert total_variation <= dp_advantage_bound(epsilon, max(0.0, gaussian_delta(epsilon, noise))) + 1e-9


@given(st.floats(0.0, 10.0), st.floats(0.0, 0.5))
def test_the_binary_case_is_the_published_formula(epsilon: float, delta: float) -> None:
    published = (math.exp(epsilon) - 1.0 + 2.0 * delta) / (math.exp(epsilon) + 1.0)
    assert dp_advantage_bound(epsilon, delta) == pytest.approx(min(1.0, published), abs=1e-12)


@given(st.floats(-0.2, 1.0), st.integers(2, 50))
def test_conversions_undo_each_other(advantage: float, values: int) -> None:
    balanced = balanced_accuracy_from_advantage(advantage, values)
    assert advantage_from_balanced_accuracy(balanced, values) == pytest.approx(advantage, abs=1e-9)


def test_known_conversions() -> None:
    assert advantage_from_balanced_accuracy(1.0, 7) == pytest.approx(1.0)
    assert advantage_from_balanced_accuracy(1 / 7, 7) == pytest.approx(0.0)
    assert advantage_from_balanced_accuracy(0.4, 4) == pytest.approx(0.2)


def test_replacing_a_record_costs_twice_as_much() -> None:
    # Laplace-like triple: removing is (ε, δ) on either side of a middle law; check the composed pair directly.
    rng = np.random.default_rng(1)
    for _ in range(500):
        a, middle, b = rng.dirichlet(np.ones(5), size=3)
        epsilon = float(rng.uniform(0.0, 2.0))
        delta = max(attribute_dp_delta([a, middle], epsilon), attribute_dp_delta([middle, b], epsilon))
        twice, more = replace_one_from_add_remove(epsilon, delta)
        assert attribute_dp_delta([a, b], twice) <= more + 1e-12
    assert replace_one_from_add_remove(1.0, 0.0) == (2.0, 0.0)
    assert replace_one_from_add_remove(1000.0, 1e-5) == (2000.0, 1.0)


def test_extremes_and_nonsense() -> None:
    assert dp_accuracy_bound(math.inf, 0.0, [0.9, 0.1, 0.0]) == 1.0
    assert dp_accuracy_bound(0.0, 0.0, [0.9, 0.1]) == pytest.approx(0.9)
    assert dp_accuracy_bound(0.0, 1.0, [0.5, 0.5]) == 1.0
    with pytest.raises(InputError, match="epsilon"):
        dp_advantage_bound(-1.0)
    with pytest.raises(InputError, match="delta"):
        dp_advantage_bound(1.0, 1.5)
    with pytest.raises(InputError, match="two values"):
        advantage_from_balanced_accuracy(0.5, 1)


def test_the_certificate_names_what_is_covered() -> None:
    certificate = certify_accuracy_from_dp(1.0, 1e-5, [0.6, 0.4], protects="noised updates")
    assert certificate.bound == dp_accuracy_bound(1.0, 1e-5, [0.6, 0.4])
    assert certificate.assumptions["covered messages"] == "noised updates"
    assert certificate.assumptions["priors"] == (0.6, 0.4)
