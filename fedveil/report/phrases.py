"""Figures as a sentence shows them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from fedveil.core.arrays import FloatArray
from fedveil.core.figures import Estimate

T = TypeVar("T")


def shown(value: Estimate) -> str:
    """Show an accuracy with its interval, two digits.

    >>> shown(Estimate(0.8012, 0.79, 0.8149))
    '0.80 [0.79, 0.81]'
    """
    if math.isnan(value.low) or math.isnan(value.high):
        return f"{value.estimate:.2f}"
    return f"{value.estimate:.2f} [{value.low:.2f}, {value.high:.2f}]"


def points(value: Estimate) -> str:
    """Show a difference of accuracies in points of a hundred.

    >>> points(Estimate(0.0123, 0.001, 0.02))
    '1.2 [0.1, 2.0] points'
    """
    if math.isnan(value.low) or math.isnan(value.high):
        return f"{_tenths(value.estimate)} points"
    return f"{_tenths(value.estimate)} [{_tenths(value.low)}, {_tenths(value.high)}] points"


def bound(value: float) -> str:
    """Show an upper bound with two digits, rounded to the safe side.

    >>> bound(0.5988), bound(0.5901), bound(0.59)
    ('0.60', '0.60', '0.59')
    """
    return f"{math.ceil(round(value * 100, 6)) / 100:.2f}"


def negated(value: Estimate) -> Estimate:
    """Return the same difference seen from the other side."""
    return Estimate(-value.estimate, -value.high, -value.low)


def difference(first: Estimate, first_draws: FloatArray, second: Estimate, second_draws: FloatArray) -> Estimate:
    """Return first less second; the interval is of the draws, which belong together in pairs."""
    apart = np.asarray(first_draws) - np.asarray(second_draws)
    apart = apart[np.isfinite(apart)]
    low, high = np.quantile(apart, [0.025, 0.975]) if len(apart) else (math.nan, math.nan)
    return Estimate(first.estimate - second.estimate, float(low), float(high))


def listed(found: Sequence[T], say: Callable[[T], str], most: int = 4) -> str:
    """List a few, and count the rest.

    >>> listed(["a", "b", "c"], str.upper), listed("abcdef", str)
    ('A, B and C', 'a, b, c, d and 2 more')
    """
    words = [say(one) for one in found[:most]] + ([f"{len(found) - most} more"] if len(found) > most else [])
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def estimate_of(value: Any) -> Estimate | None:
    """Return an estimate from its plain form, or None where it is missing."""
    if not isinstance(value, dict) or value.get("estimate") is None:
        return None
    middle, *ends = (value.get(name) for name in ("estimate", "low", "high"))
    return Estimate(float(middle or 0.0), *(math.nan if end is None else float(end) for end in ends))


def _tenths(value: float) -> str:
    told = f"{100 * value:.1f}"
    return "0.0" if told == "-0.0" else told.replace("-", "−")
