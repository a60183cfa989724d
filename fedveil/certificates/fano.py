"""Fano's inequality, inverted exactly: from uncertainty about u to a ceiling on every attacker's accuracy.

These functions return plain numbers and certify nothing by themselves: whether the number holds for every
attacker depends on the source of H(u|r); see `fedveil.certificates.equivocation`.

Symbols: K values of u, Pe the attacker's error, H₂ the binary entropy, all in bits.
Fano (1961; Cover and Thomas, Elements of Information Theory, §2.10): H(u|r) ≤ H₂(Pe) + Pe·log₂(K−1).
"""

from __future__ import annotations

import math
from collections.abc import Callable

from fedveil.core.entropy import binary_entropy
from fedveil.core.errors import InputError

_ENTROPY_SLACK = 1e-9
"""An entropy above log₂ K by at most this much is attributed to rounding."""

_ROUNDING = 1e-15
"""Keeps the rounding of computed entropies on the safe side; where they are flat, it costs about 1e-8 of accuracy."""

_STEPS = 200
"""Halvings of the bracket: more than a float's 52 bits, so that its ends become neighbouring floats even near 0."""


def inverse_binary_entropy(bits: float) -> float:
    """Return the p in [0, 1/2] with H₂(p) = bits, from below: it exceeds the exact root at most by rounding.

    >>> inverse_binary_entropy(1.0), inverse_binary_entropy(0.0)
    (0.5, 0.0)
    >>> round(inverse_binary_entropy(0.5), 6)
    0.110028
    """
    return fano_error_bound(bits, 2)


def fano_error_bound(conditional_entropy: float, values: int) -> float:
    """Return the smallest Pe in [0, (K−1)/K] with H₂(Pe) + Pe·log₂(K−1) ≥ H(u|r).

    Guarantee: every attacker's error is at least Pe, if `conditional_entropy` is H(u|r) or a lower bound on it.
    """
    limit = math.log2(_checked_values(values))
    if not 0.0 <= conditional_entropy <= limit + _ENTROPY_SLACK:
        raise InputError(
            f"Fano: H(u|r) of {values} values lies in [0, {limit:.4f}] bits, got {conditional_entropy}; check its unit"
        )
    if conditional_entropy >= limit:
        return (values - 1) / values
    spread = math.log2(values - 1) if values > 2 else 0.0
    return _largest_below(
        lambda error: float(binary_entropy(error)) + error * spread + _ROUNDING * limit <= conditional_entropy,
        0.0,
        (values - 1) / values,
    )


def fano_accuracy_bound(conditional_entropy: float, values: int, *, largest_prior: float | None = None) -> float:
    """Return the ceiling 1 − Pe on accuracy that Fano's inequality allows.

    If the largest prior is given, a ceiling below it is an `InputError`: guessing the likeliest value
    always reaches that accuracy, so such an H(u|r) cannot be right.

    >>> fano_accuracy_bound(1.0, 2)
    0.5
    >>> round(fano_accuracy_bound(math.log2(10), 10), 6)
    0.1
    """
    accuracy = 1.0 - fano_error_bound(conditional_entropy, values)
    if largest_prior is not None:
        _checked_prior(largest_prior, values)
        if accuracy < largest_prior - 1e-6:
            raise InputError(
                f"Fano: H(u|r) = {conditional_entropy:.4f} bits would forbid the accuracy {largest_prior:.4f} of "
                "guessing the likeliest value; H(u|r) exceeds H(u) or was overestimated"
            )
        accuracy = max(accuracy, largest_prior)
    return accuracy


def information_accuracy_bound(information: float, largest_prior: float) -> float:
    """Return the largest a with d(a ‖ π) ≤ I(u;r): the ceiling on accuracy when guessing alone reaches π.

    d is the divergence of two coins in bits. Proof: the event "the guess is right" has probability a under
    the joint law and at most π under the product of its margins; data processing gives d(a ‖ π) ≤ I(u;r)
    (Han and Verdú 1994). With equal priors it is Fano's bound; for uneven priors and little information
    either may be the tighter one, and both hold.

    >>> information_accuracy_bound(0.0, 0.7)
    0.7
    >>> abs(information_accuracy_bound(0.4, 0.25) - fano_accuracy_bound(2.0 - 0.4, 4)) < 1e-7
    True
    """
    if not information >= 0.0:
        raise InputError(f"information bound: I(u;r) must not be negative, got {information}; check the estimate")
    if not 0.0 < largest_prior <= 1.0:
        raise InputError(f"information bound: the largest prior must lie in (0, 1], got {largest_prior}")
    if information == 0.0 or largest_prior == 1.0:
        return largest_prior
    if information >= -math.log2(largest_prior):
        return 1.0
    error = _largest_below(
        lambda wrong: _coin_divergence(1.0 - wrong, largest_prior) - _ROUNDING >= information, 0.0, 1.0 - largest_prior
    )
    return 1.0 - error


def _largest_below(holds: Callable[[float], bool], low: float, high: float) -> float:
    """Return the largest point, to float precision, up to which `holds`, true at `low` and changing once, is true."""
    for _ in range(_STEPS):
        middle = 0.5 * (low + high)
        if middle in (low, high):
            break
        if holds(middle):
            low = middle
        else:
            high = middle
    return low


def _coin_divergence(a: float, b: float) -> float:
    first = a * math.log2(a / b) if a > 0.0 else 0.0
    return first + ((1.0 - a) * math.log2((1.0 - a) / (1.0 - b)) if a < 1.0 else 0.0)


def _checked_values(values: int) -> int:
    if values < 2:
        raise InputError(f"Fano: an attribute needs at least two values, got {values}")
    return values


def _checked_prior(largest_prior: float, values: int) -> None:
    if not 1.0 / values - 1e-9 <= largest_prior <= 1.0:
        raise InputError(f"Fano: the largest prior of {values} values lies in [1/{values}, 1], got {largest_prior}")
