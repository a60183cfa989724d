"""TAPPFL's two theorems, as printed and as corrected (Arroyo Arevalo, Noorbakhsh, Dong, Hong and Wang, AAAI 2024).

The printed forms are for comparison and reproduction only; each says where it fails. All functions
return plain numbers: see `equivocation` for what may be certified with them.

Symbols: Δ = |P(y=1|u=0) − P(y=1|u=1)|; Adv = the best attacker's |P(A=1|u=1) − P(A=1|u=0)|, the total
variation between r given u=0 and r given u=1; err = the task classifier's error given u=0 plus that given
u=1; R bounds ‖r‖; C_L is the classifier's Lipschitz constant; H = H(u|r) in bits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fedveil.certificates.fano import fano_accuracy_bound
from fedveil.core.arrays import FloatArray
from fedveil.core.errors import InputError

_ROWS_AT_ONCE = 1024


@dataclass(frozen=True)
class ClassifierConstants:
    """Theorem 1's R and C_L for a trained task classifier c that answers 0 or 1, on the records that it answered for.

    R is the largest norm among the records' representations. C_L is c's own Lipschitz constant there: the largest
    |c(r) − c(r′)|/‖r − r′‖ over all pairs, which is 1 over the smallest distance between two representations that c
    answers differently. It is 0 if all answers are equal. This is what the theorem's proof uses (its c is binary), and
    no bound: for those records nothing smaller is a Lipschitz constant of c. Two representations are never further
    apart than 2R, so 2R·C_L ≥ 1 unless c is constant, and the printed bound never exceeds the corrected one.

    Attributes:
        radius: R.
        lipschitz: C_L; infinite if equal representations got different answers.

    >>> ClassifierConstants.of([[0.0, 3.0], [0.0, -1.0], [2.0, -1.0]], [0, 0, 1])
    ClassifierConstants(radius=3.0, lipschitz=0.5)
    """

    radius: float
    lipschitz: float

    @classmethod
    def of(cls, representations: npt.ArrayLike, answers: npt.ArrayLike) -> ClassifierConstants:
        """Measure both on records: a representation, (records, d), and an answer, 0 or 1, for each."""
        r, answer = np.asarray(representations, dtype=np.float64), np.asarray(answers)
        if r.ndim != 2 or answer.shape != r.shape[:1] or not len(r):
            raise InputError(f"Theorem 1: give a vector and an answer for each record, got {r.shape}, {answer.shape}")
        if not np.isin(answer, (0, 1)).all():
            raise InputError("Theorem 1: the classifier's answers must be 0 or 1")
        radius = float(np.linalg.norm(r, axis=1).max())
        zeros, ones = r[answer == 0], r[answer == 1]
        if not len(zeros) or not len(ones):
            return cls(radius, 0.0)
        distance = _smallest_distance(zeros, ones)
        return cls(radius, 1.0 / distance if distance > 0.0 else math.inf)

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON values; an infinite constant is null."""
        return {
            "radius": self.radius,
            "lipschitz": self.lipschitz if math.isfinite(self.lipschitz) else None,
            "measured": "largest norm, and 1 / smallest distance between different answers, on test people's releases",
        }


def _smallest_distance(first: FloatArray, second: FloatArray) -> float:
    """Return the smallest distance between a row of one and a row of the other."""
    centre = second.mean(axis=0)
    first, second = first - centre, second - centre
    squares = np.square(second).sum(axis=1)
    smallest = math.inf
    for start in range(0, len(first), _ROWS_AT_ONCE):
        part = first[start : start + _ROWS_AT_ONCE]
        nearest = (squares - 2.0 * part @ second.T).argmin(axis=1)
        # Squares cancel where rows are close; the distance itself is computed from differences.
        smallest = min(smallest, float(np.linalg.norm(part - second[nearest], axis=1).min()))
    return smallest


def printed_theorem1_error_bound(gap: float, advantage: float, radius: float, lipschitz: float) -> float:
    """Return Theorem 1 as printed (eq. 9): err ≥ Δ − 2R·C_L·Adv.

    Where it fails: for a classifier that thresholds a real score, with C_L the score's constant. Shrinking
    the score about its threshold changes no decision and drives C_L to 0, so the printed bound tends to Δ
    while the error may be 0. It does hold when c is itself the probability and err its cross-entropy in
    nats, or when c is {0,1}-valued and C_L its own constant, which is then at least 1/(2R) unless c is
    constant: `corrected_theorem1_error_bound` is never looser there.
    """
    _check_theorem1(gap, advantage)
    if not (radius >= 0.0 and lipschitz >= 0.0):
        raise InputError(f"Theorem 1: radius and Lipschitz constant must not be negative, got {radius}, {lipschitz}")
    return gap - 2.0 * radius * lipschitz * advantage


def corrected_theorem1_error_bound(gap: float, advantage: float) -> float:
    """Return Theorem 1 as corrected: 0–1 error summed over u ≥ Δ − Adv, whatever the norm and the classifier.

    Proof: c's decision is itself an attack on u, so |P(c=1|u=0) − P(c=1|u=1)| ≤ Adv; and
    |P(y=1|u) − P(c=1|u)| ≤ P(y≠c|u) for either u. The claim follows by the triangle inequality. The same holds for
    the cross-entropy in nats of any c in [0, 1], since −ln(1−e) ≥ e.
    """
    _check_theorem1(gap, advantage)
    return gap - advantage


def printed_theorem2_accuracy_bound(conditional_entropy: float) -> float:
    """Return Theorem 2 as printed: accuracy ≤ 1 − H/(2 log₂(6/H)).

    Where it fails: for more than two values of u. Its proof takes H(u | wrong, guess) to be 0, which is true for
    binary u only; with ten equally likely values and no leakage at all it gives a negative accuracy, and from
    6 bits on it is undefined (returned as −∞). For binary u it holds and is loose: 0.807 at H = 1, where the
    exact ceiling is 0.5.

    >>> round(printed_theorem2_accuracy_bound(1.0), 3)
    0.807
    """
    if not conditional_entropy >= 0.0:
        raise InputError(f"Theorem 2: H(u|r) must not be negative, got {conditional_entropy}")
    if conditional_entropy == 0.0:
        return 1.0
    if conditional_entropy >= 6.0:
        return -math.inf
    return 1.0 - conditional_entropy / (2.0 * math.log2(6.0 / conditional_entropy))


def corrected_theorem2_accuracy_bound(conditional_entropy: float, values: int) -> float:
    """Return Theorem 2 as corrected: Fano's inequality for K values, inverted; for binary u 1 − H₂⁻¹(H).

    >>> corrected_theorem2_accuracy_bound(1.0, 2)
    0.5
    """
    return fano_accuracy_bound(conditional_entropy, values)


def _check_theorem1(gap: float, advantage: float) -> None:
    if not (0.0 <= gap <= 1.0 and 0.0 <= advantage <= 1.0):
        raise InputError(f"Theorem 1: Δ and the advantage lie in [0, 1], got {gap} and {advantage}")
