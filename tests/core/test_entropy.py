from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedveil.core import entropy as e
from fedveil.core.errors import InputError

tables = st.tuples(st.integers(1, 5), st.integers(1, 6), st.integers(0, 2**32 - 1)).map(
    lambda spec: np.random.default_rng(spec[2]).dirichlet(np.full(spec[0] * spec[1], 0.4)).reshape(spec[0], spec[1])
)


@given(tables)
def test_entropies_agree_with_scipy_and_with_the_chain_rule(table: np.ndarray) -> None:
    assert e.entropy(table) == pytest.approx(stats.entropy(table.ravel(), base=2), abs=1e-9)
    assert e.conditional_entropy(table) == pytest.approx(e.entropy(table) - e.entropy(table.sum(axis=0)), abs=1e-9)
    expected = e.entropy(table.sum(axis=1)) - e.conditional_entropy(table)
    assert e.mutual_information(table) == pytest.approx(max(0.0, expected), abs=1e-9)


def test_conditional_entropy_of_several_axes_conditions_on_the_last() -> None:
    rng = np.random.default_rng(0)
    joint = rng.dirichlet(np.ones(12)).reshape(2, 3, 2)
    flat = joint.reshape(6, 2)
    assert e.conditional_entropy(joint) == pytest.approx(e.conditional_entropy(flat))
    by_hand = sum(flat[:, b].sum() * stats.entropy(flat[:, b], base=2) for b in range(2))
    assert e.conditional_entropy(joint) == pytest.approx(by_hand)


@given(st.floats(0.0, 1.0))
def test_binary_entropy_is_symmetric_and_matches_the_two_point_law(p: float) -> None:
    assert float(e.binary_entropy(p)) == pytest.approx(e.entropy([p, 1.0 - p]), abs=1e-12)
    assert float(e.binary_entropy(p)) == pytest.approx(float(e.binary_entropy(1.0 - p)), abs=1e-9)


def test_plug_in_is_the_entropy_of_the_frequencies() -> None:
    a, b = [0, 0, 1, 1, 1, 2], ["x", "y", "x", "x", "y", "y"]
    table = np.array([[1, 1], [2, 1], [0, 1]]) / 6
    assert e.counts_of(a, b).tolist() == [[1, 1], [2, 1], [0, 1]]
    assert e.plug_in_entropy(a) == pytest.approx(e.entropy(table.sum(axis=1)))
    assert e.plug_in_conditional_entropy(a, b) == pytest.approx(e.conditional_entropy(table))
    assert e.plug_in_mutual_information(a, b) == pytest.approx(e.mutual_information(table))
    assert e.plug_in_entropy(a, miller_madow=True) - e.plug_in_entropy(a) == pytest.approx(2 / (12 * math.log(2)))


def test_miller_madow_removes_most_of_the_bias() -> None:
    rng = np.random.default_rng(1)
    law = rng.dirichlet(np.ones(12))
    draws = [rng.choice(12, size=60, p=law) for _ in range(400)]
    plain = np.mean([e.plug_in_entropy(draw) for draw in draws]) - e.entropy(law)
    corrected = np.mean([e.plug_in_entropy(draw, miller_madow=True) for draw in draws]) - e.entropy(law)
    assert plain < -0.05
    assert abs(corrected) < 0.5 * abs(plain)
    pairs = [(rng.integers(0, 4, 60), rng.integers(0, 4, 60)) for _ in range(400)]
    plain = np.mean([e.plug_in_mutual_information(a, b) for a, b in pairs])
    corrected = np.mean([e.plug_in_mutual_information(a, b, miller_madow=True) for a, b in pairs])
    assert plain == pytest.approx(9 / (120 * math.log(2)), rel=0.25)
    assert corrected < 0.6 * plain


@pytest.mark.parametrize("wrong", [[0.5, 0.6], [1.2, -0.2], [], [np.nan, 1.0]])
def test_what_is_no_distribution_is_refused(wrong: list[float]) -> None:
    with pytest.raises(InputError, match="probabilities"):
        e.entropy(wrong)


def test_labels_of_unequal_length_and_flat_joints_are_refused() -> None:
    with pytest.raises(InputError, match="same length"):
        e.counts_of([0, 1], [0])
    with pytest.raises(InputError, match="no records"):
        e.counts_of([])
    with pytest.raises(InputError, match="two axes"):
        e.conditional_entropy([0.5, 0.5])
    with pytest.raises(InputError, match=r"\[0, 1\]"):
        e.binary_entropy(1.1)
