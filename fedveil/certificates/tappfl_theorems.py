"""TAPPFL's two theorems, as printed and as corrected (Arroyo Arevalo, Noorbakhsh, Dong, Hong and Wang, AAAI 2024).

The printed forms are for comparison and reproduction only; each says where it fails. All functions
return plain numbers: see `equivocation` for what may be certified with them.

Symbols: Δ = |P(y=1|u=0) − P(y=1|u=1)|; Adv = the best attacker's |P(A=1|u=1) − P(A=1|u=0)|, the total
variation between r given u=0 and r given u=1; err = the task classifier's error given u=0 plus that given
u=1; R bounds ‖r‖; C_L is the classifier's Lipschitz constant; H = H(u|r) in bits.
"""

from __future__ import annotations

import math

from fedveil.certificates.fano import fano_accuracy_bound
from fedveil.core.errors import InputError


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
