from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedveil.certificates import (
    fano_accuracy_bound,
    fano_error_bound,
    information_accuracy_bound,
    inverse_binary_entropy,
)
from fedveil.core.entropy import binary_entropy, conditional_entropy, mutual_information
from fedveil.core.errors import InputError


def bayes_accuracy(joint: np.ndarray) -> float:
    return float(joint.max(axis=0).sum())


@given(st.floats(0.0, 1.0))
def test_inverse_binary_entropy_inverts(bits: float) -> None:
    p = inverse_binary_entropy(bits)
    assert 0.0 <= p <= 0.5
    assert float(binary_entropy(p)) == pytest.approx(bits, abs=1e-12)


@given(st.floats(0.0, 1.0), st.integers(2, 200))
def test_fano_is_inverted_exactly(share: float, values: int) -> None:
    bits = share * math.log2(values)
    error = fano_error_bound(bits, values)
    assert 0.0 <= error <= (values - 1) / values
    assert float(binary_entropy(error)) + error * math.log2(values - 1) == pytest.approx(bits, abs=1e-9)


def test_known_values() -> None:
    assert fano_accuracy_bound(0.0, 5) == 1.0
    assert fano_accuracy_bound(1.0, 2) == 0.5
    assert fano_accuracy_bound(math.log2(7), 7) == pytest.approx(1 / 7, abs=1e-12)
    assert inverse_binary_entropy(float(binary_entropy(0.3))) == pytest.approx(0.3, abs=1e-12)


def test_no_attacker_beats_either_bound_on_thousands_of_laws(random_joint: Callable[..., np.ndarray]) -> None:
    rng = np.random.default_rng(0)
    tight = loose = 0
    for _ in range(4000):
        joint = random_joint(rng, outputs=rng.integers(1, 8))
        values, prior = len(joint), float(joint.sum(axis=1).max())
        best = bayes_accuracy(joint)
        fano = fano_accuracy_bound(min(conditional_entropy(joint), math.log2(values)), values, largest_prior=prior)
        coin = information_accuracy_bound(mutual_information(joint), prior)
        assert best <= fano + 1e-9
        assert best <= coin + 1e-7
        tight += fano < coin
        loose += fano > coin
    # Neither bound makes the other superfluous.
    assert tight > 100
    assert loose > 100


@given(st.integers(2, 30), st.floats(0.0, 1.0))
def test_fano_is_attained_by_a_symmetric_channel(values: int, share: float) -> None:
    error = share * (values - 1) / values
    joint = np.full((values, values), error / (values - 1) / values)
    np.fill_diagonal(joint, (1.0 - error) / values)
    assert fano_accuracy_bound(min(conditional_entropy(joint), math.log2(values)), values) == pytest.approx(
        1.0 - error, abs=1e-6
    )


@given(st.integers(2, 30), st.floats(0.0, 1.0))
def test_with_equal_priors_both_bounds_are_the_same(values: int, share: float) -> None:
    most = math.log2(values)
    fano = fano_accuracy_bound(most * (1.0 - share), values)
    assert information_accuracy_bound(most - most * (1.0 - share), 1 / values) == pytest.approx(fano, abs=1e-6)


def test_impossible_entropies_are_refused() -> None:
    with pytest.raises(InputError, match="unit"):
        fano_accuracy_bound(1.2, 2)
    with pytest.raises(InputError, match="unit"):
        fano_accuracy_bound(-0.1, 2)
    with pytest.raises(InputError, match="two values"):
        fano_accuracy_bound(0.0, 1)
    with pytest.raises(InputError, match="likeliest"):
        fano_accuracy_bound(1.0, 2, largest_prior=0.9)
    with pytest.raises(InputError, match="negative"):
        information_accuracy_bound(-1.0, 0.5)
