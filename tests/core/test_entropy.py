from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedveil.core.entropy import (
    binary_entropy,
    conditional_entropy,
    counts_of,
    entropy,
    mutual_information,
    plug_in_conditional_entropy,
    plug_in_entropy,
    plug_in_mutual_information,
)
from fedveil.core.errors import InputError

tables = st.tuples(st.integers(1, 5), st.integers(1, 6), st.integers(0, 2**32 - 1)).map(
    lambda spec: np.random.default_rng(spec[2]).dirichlet(np.full(spec[0] * spec[1], 0.4)).reshape(spec[0], spec[1])
)


@given(tables)
def test_entropies_agree_with_scipy_and_with_the_chain_rule(table: np.ndarray) -> None:
    assert entropy(table) == pytest.approx(stats.entropy(table.ravel(), base=2), abs=1e-9)
    assert conditional_entropy(table) == pytest.approx(entropy(table) - entropy(table.sum(axis=0)), abs=1e-9)
    expected = entropy(table.sum(axis=1)) - conditional_entropy(table)
    assert mutual_information(table) == pytest.approx(max(0.0, expected), abs=1e-9)


def test_conditional_entropy_of_several_axes_conditions_on_the_last() -> None:
    rng = np.random.default_rng(0)
    joint = rng.dirichlet(np.ones(12)).reshape(2, 3, 2)
    flat = joint.reshape(6, 2)
    assert conditional_entropy(joint) == pytest.approx(conditional_entropy(flat))
    by_hand = sum(flat[:, b].sum() * stats.entropy(flat[:, b], base=2) for b in range(2))
    assert conditional_entropy(joint) == pytest.approx(by_hand)


@given(st.floats(0.0, 1.0))
def test_binary_entropy_is_symmetric_and_matches_the_two_point_law(p: float) -> None:
    assert float(binary_entropy(p)) == pytest.approx(entropy([p, 1.0 - p]), abs=1e-12)
    assert float(binary_entropy(p)) == pytest.approx(float(binary_entropy(1.0 - p)), abs=1e-9)


def test_plug_in_is_the_entropy_of_the_frequencies() -> None:
    a, b = [0, 0, 1, 1, 1, 2], ["x", "y", "x", "x", "y", "y"]
    table = np.array([[1, 1], [2, 1], [0, 1]]) / 6
    assert counts_of(a, b).tolist() == [[1, 1], [2, 1], [0, 1]]
    assert plug_in_entropy(a) == pytest.approx(entropy(table.sum(axis=1)))
    assert plug_in_conditional_entropy(a, b) == pytest.approx(conditional_entropy(table))
    assert plug_in_mutual_information(a, b) == pytest.approx(mutual_information(table))
    assert plug_in_entropy(a, miller_madow=True) - plug_in_entropy(a) == pytest.approx(2 / (12 * math.log(2)))


def test_miller_madow_removes_most_of_the_bias() -> None:
    rng = np.random.default_rng(1)
    law = rng.dirichlet(np.ones(12))
    draws = [rng.choice(12, size=60, p=law) for _ in range(400)]
    plain = np.mean([plug_in_entropy(draw) for draw in draws]) - entropy(law)
    corrected = np.mean([plug_in_entropy(draw, miller_madow=True) for draw in draws]) - entropy(law)
    assert plain < -0.05
    assert abs(corrected) < 0.5 * abs(plain)
    pairs = [(rng.integers(0, 4, 60), rng.integers(0, 4, 60)) for _ in range(400)]
    plain = np.mean([plug_in_mutual_information(a, b) for a, b in pairs])
    corrected = np.mean([plug_in_mutual_information(a, b, miller_madow=True) for a, b in pairs])
    assert plain == pytest.approx(9 / (120 * math.log(2)), rel=0.25)
    assert corrected < 0.6 * plain


@pytest.mark.parametrize("wrong", [[0.5, 0.6], [1.2, -0.2], [], [np.nan, 1.0]])
def test_invalid_distributions_are_refused(wrong: list[float]) -> None:
    with pytest.raises(InputError, match="probabilities"):
        entropy(wrong)


def test_labels_of_unequal_length_and_flat_joints_are_refused() -> None:
    with pytest.raises(InputError, match="same length"):
        counts_of([0, 1], [0])
    with pytest.raises(InputError, match="no records"):
        counts_of([])
    with pytest.raises(InputError, match="two axes"):
        conditional_entropy([0.5, 0.5])
    with pytest.raises(InputError, match=r"\[0, 1\]"):
        binary_entropy(1.1)
