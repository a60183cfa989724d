from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedveil.certificates import (
    ClassifierConstants,
    corrected_theorem1_error_bound,
    corrected_theorem2_accuracy_bound,
    printed_theorem1_error_bound,
    printed_theorem2_accuracy_bound,
)
from fedveil.core.entropy import conditional_entropy
from fedveil.core.errors import InputError


class Case:
    """A random world with binary y and u, r on points of a line in [−R, R], and a classifier by a score's sign."""

    def __init__(self, rng: np.random.Generator) -> None:
        points = int(rng.integers(2, 6))
        joint = rng.dirichlet(np.full(4 * points, 0.3)).reshape(2, 2, points)  # p(u, y, r)
        self.given_u = joint / joint.sum(axis=(1, 2), keepdims=True)
        self.gap = float(abs(self.given_u[0, 1].sum() - self.given_u[1, 1].sum()))
        self.advantage = float(0.5 * np.abs(self.given_u[0].sum(axis=0) - self.given_u[1].sum(axis=0)).sum())
        self.radius = float(rng.uniform(0.5, 3.0))
        positions = np.sort(rng.uniform(-self.radius, self.radius, points))
        slope = 10.0 ** rng.uniform(-3, 1)
        self.lipschitz = slope
        decision = (slope * (positions - rng.uniform(-self.radius, self.radius)) >= 0.0).astype(int)
        if rng.uniform() < 0.5:
            decision = 1 - decision
        wrong = np.where(decision == 1, self.given_u[:, 0], self.given_u[:, 1])
        self.error = float(wrong.sum())
        # As a {0,1}-valued function on its points the classifier's own constant is one over the smallest jump's width.
        jumps = np.flatnonzero(np.diff(decision))
        self.own_lipschitz = float((1.0 / np.diff(positions)[jumps]).max()) if len(jumps) else 0.0


def test_corrected_theorem_1_holds_where_the_printed_one_fails() -> None:
    rng = np.random.default_rng(0)
    violations = 0
    for _ in range(3000):
        case = Case(rng)
        assert case.error >= corrected_theorem1_error_bound(case.gap, case.advantage) - 1e-12
        violations += case.error < (
            printed_theorem1_error_bound(case.gap, case.advantage, case.radius, case.lipschitz) - 1e-9
        )
    # Fed with the Lipschitz constant of the score that is thresholded, the printed bound is wrong.
    assert violations > 50


def test_corrected_theorem_1_is_never_looser_for_classifiers_with_values_0_and_1() -> None:
    rng = np.random.default_rng(1)
    compared = 0
    for _ in range(2000):
        case = Case(rng)
        printed = printed_theorem1_error_bound(case.gap, case.advantage, case.radius, case.own_lipschitz)
        assert case.error >= printed - 1e-12
        if case.own_lipschitz > 0.0:
            compared += 1
            assert corrected_theorem1_error_bound(case.gap, case.advantage) >= printed - 1e-12
    assert compared > 500


def test_corrected_theorem_2_holds_where_the_printed_one_fails(random_joint: Callable[..., np.ndarray]) -> None:
    rng = np.random.default_rng(2)
    binary_violations = many_violations = 0
    for _ in range(4000):
        joint = random_joint(rng)
        values, best = len(joint), float(joint.max(axis=0).sum())
        bits = min(conditional_entropy(joint), math.log2(values))
        assert best <= corrected_theorem2_accuracy_bound(bits, values) + 1e-9
        broken = best > printed_theorem2_accuracy_bound(bits) + 1e-9
        if values == 2:
            binary_violations += broken
        else:
            many_violations += broken
    assert binary_violations == 0
    assert many_violations > 100


@given(st.floats(0.0, 1.0))
def test_for_binary_attributes_the_corrected_theorem_2_is_never_looser(bits: float) -> None:
    assert corrected_theorem2_accuracy_bound(bits, 2) <= printed_theorem2_accuracy_bound(bits) + 1e-12


def test_the_figures_printed_in_the_text() -> None:
    assert printed_theorem2_accuracy_bound(1.0) == pytest.approx(0.8066, abs=1e-4)
    assert corrected_theorem2_accuracy_bound(1.0, 2) == 0.5
    assert printed_theorem2_accuracy_bound(math.log2(10)) < 0.0
    assert printed_theorem2_accuracy_bound(7.0) == -math.inf
    assert printed_theorem2_accuracy_bound(0.0) == 1.0


def test_nonsense_is_refused() -> None:
    with pytest.raises(InputError, match="advantage"):
        corrected_theorem1_error_bound(0.5, 1.5)
    with pytest.raises(InputError, match="Lipschitz"):
        printed_theorem1_error_bound(0.5, 0.5, -1.0, 1.0)
    with pytest.raises(InputError, match="negative"):
        printed_theorem2_accuracy_bound(-0.5)


def test_measured_constants_are_those_of_all_pairs() -> None:
    rng = np.random.default_rng(2)
    for size, width in ((2, 1), (40, 3), (1500, 5)):
        r = rng.normal(5.0, 1.0, (size, width))
        answers = rng.permutation(np.arange(size) % 2)
        constants = ClassifierConstants.of(r, answers)
        steepest = max(
            float((1.0 / np.linalg.norm(r[answers == 1] - point, axis=1)).max()) for point in r[answers == 0]
        )
        assert constants.lipschitz == pytest.approx(steepest, rel=1e-9)
        assert constants.radius == pytest.approx(max(float(np.linalg.norm(point)) for point in r))
        assert 2 * constants.radius * constants.lipschitz >= 1


def test_the_printed_theorem_1_holds_with_measured_constants() -> None:
    rng = np.random.default_rng(3)
    for _ in range(300):
        r = rng.integers(-2, 3, (60, 2)).astype(float)
        u, y = rng.integers(0, 2, (2, 60))
        answers = (r @ rng.normal(size=2) > rng.normal()).astype(int)
        if len(np.unique(u)) < 2:
            continue
        _, cell = np.unique(r, axis=0, return_inverse=True)
        law = [np.bincount(cell.reshape(-1)[u == value], minlength=25) / (u == value).sum() for value in (0, 1)]
        advantage = min(1.0, float(0.5 * np.abs(law[0] - law[1]).sum()))
        gap = float(abs(y[u == 0].mean() - y[u == 1].mean()))
        error = float(sum((answers != y)[u == value].mean() for value in (0, 1)))
        constants = ClassifierConstants.of(r, answers)
        printed = printed_theorem1_error_bound(gap, advantage, constants.radius, constants.lipschitz)
        assert error >= printed - 1e-12
        if constants.lipschitz > 0:
            assert printed <= corrected_theorem1_error_bound(gap, advantage) + 1e-12


def test_constants_at_the_edge() -> None:
    assert ClassifierConstants.of([[3.0, 4.0]], [1]) == ClassifierConstants(5.0, 0.0)
    same = ClassifierConstants.of([[1.0], [1.0]], [0, 1])
    assert same.lipschitz == math.inf
    assert same.as_dict()["lipschitz"] is None
    for r, answers in (([1.0, 2.0], [0, 1]), ([[1.0]], [0, 1]), ([[1.0], [2.0]], [0, 2]), (np.empty((0, 2)), [])):
        with pytest.raises(InputError, match="Theorem 1"):
            ClassifierConstants.of(r, answers)
