"""The geometry of utility against leakage: who dominates whom, the area dominated, the curve between points.

Utility is better when high, leakage when low. Everything is computed for many columns at once: column 0 is the sample,
the others are bootstrap draws, and each has its own staircase. A point whose figures are not finite in a column is
absent from that column.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite, nan
from typing import Any

import numpy as np

from fedveil.core.arrays import BoolArray, FloatArray
from fedveil.core.figures import Estimate
from fedveil.core.measures import interval

CONFIDENCE = 0.95

_GRID = np.linspace(0, 1, 41)
_SHARES = np.array([0.5, *[1.0] * 39, 0.5]) / 40
"""The trapezoidal rule's weights."""


def undominated(utility: FloatArray, leakage: FloatArray) -> BoolArray:
    """Return which points no other point dominates.

    A point dominates another if it leaks at most as much, is at least as useful, and differs from it: equal points do
    not dominate each other. A point with a figure that is not finite is left out.
    """
    present = np.isfinite(utility) & np.isfinite(leakage)
    u, v = np.where(present, utility, -np.inf), np.where(present, leakage, np.inf)
    no_worse = (u[:, None] >= u) & (v[:, None] <= v)
    better = (u[:, None] > u) | (v[:, None] < v)
    return np.asarray(present & ~(no_worse & better & present[:, None]).any(axis=0))


@dataclass(frozen=True, eq=False)
class Staircase:
    """Points in order of leakage, one row per column of figures, with the best utility up to each.

    Attributes:
        leakage: sorted within each row, (C, P); absent points last, at +∞.
        best: the highest utility at that leakage or less, (C, P).
        steps: which of the sorted points are undominated, (C, P); of equal points only the first.
    """

    leakage: FloatArray
    best: FloatArray
    steps: BoolArray

    @classmethod
    def of(cls, utility: FloatArray, leakage: FloatArray) -> Staircase:
        """Sort figures of P ≥ 1 points in C columns, both (P, C)."""
        present = np.isfinite(utility) & np.isfinite(leakage)
        u, v = np.where(present, utility, -np.inf).T, np.where(present, leakage, np.inf).T
        order = np.lexsort((-u, v), axis=1)
        u, v = np.take_along_axis(u, order, axis=1), np.take_along_axis(v, order, axis=1)
        best = np.maximum.accumulate(u, axis=1)
        before = np.concatenate([np.full((len(u), 1), -np.inf), best[:, :-1]], axis=1)
        return cls(v, best, u > before)

    @property
    def lowest(self) -> FloatArray:
        """The lowest leakage in each column; +∞ where no point is present."""
        return self.leakage[:, 0]

    @property
    def highest(self) -> FloatArray:
        """The leakage of the most useful step in each column; −∞ where no point is present."""
        return np.asarray(np.where(self.steps, self.leakage, -np.inf).max(axis=1))

    def area(self, chance: float, utility_prior: float) -> FloatArray:
        """Return the share of the box [chance, 1] × [utility_prior, 1] that the points dominate, per column.

        The box's corners are the reference (leakage 1, utility_prior) and the ideal (chance, utility 1); figures
        are clipped to the box. NaN where no point is present.
        """
        v = np.clip(self.leakage, chance, 1)
        widths = np.diff(v, axis=1, append=np.ones((len(v), 1)))
        heights = np.clip(self.best, utility_prior, 1) - utility_prior
        shares = (widths * heights).sum(axis=1) / ((1 - chance) * (1 - utility_prior))
        return np.asarray(np.where(np.isfinite(self.lowest), shares, np.nan))

    def at(self, levels: FloatArray) -> FloatArray:
        """Return the utility at levels of leakage, both (C, G), on the straight lines between neighbouring steps.

        Beyond the last step it is that step's utility; below the first, NaN.
        """
        points = self.leakage.shape[1]
        index = np.arange(points)
        last = np.maximum.accumulate(np.where(self.steps, index, -1), axis=1)
        following = np.minimum.accumulate(np.where(self.steps, index, points)[:, ::-1], axis=1)[:, ::-1]
        following = np.concatenate([following, np.full((len(following), 1), points)], axis=1)
        position = (self.leakage[:, None, :] <= levels[:, :, None]).sum(axis=2) - 1
        reached = position >= 0
        left = np.where(reached, np.take_along_axis(last, np.maximum(position, 0), axis=1), 0)
        right = np.take_along_axis(following, position + 1, axis=1)
        between = reached & (right < points)
        right = np.where(between, right, left)
        v0, v1, u0, u1 = (
            np.where(reached, np.take_along_axis(figures, side, axis=1), 0.0)
            for figures in (self.leakage, self.best)
            for side in (left, right)
        )
        share = np.divide(levels - v0, v1 - v0, out=np.zeros_like(levels), where=between)
        return np.asarray(np.where(reached, u0 + share * (u1 - u0), np.nan))


@dataclass(frozen=True)
class Comparison:
    """The difference in utility at matched leakage, method minus baseline, averaged over the leakages both curves span.

    The verdict is "beats" if the interval lies above 0, "does not beat" if it lies below, "undecided" if it contains
    0, and "not comparable", with the reason, if there is nothing to compare. Intervals are not corrected for multiple
    comparisons: of twenty methods that equal the baseline, one is expected to look different.
    `largest` and `smallest` are (difference, leakage). They are picked on the test and so exaggerated: they have no
    interval.
    """

    method: str
    baseline: str
    verdict: str
    reason: str | None = None
    difference: Estimate | None = None
    leakages: tuple[float, float] | None = None
    largest: tuple[float, float] | None = None
    smallest: tuple[float, float] | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON."""
        largest, smallest = (
            pair and {"difference": pair[0], "leakage": pair[1]} for pair in (self.largest, self.smallest)
        )
        return {
            "method": self.method,
            "baseline": self.baseline,
            "verdict": self.verdict,
            "reason": self.reason,
            "difference": shown(self.difference),
            "leakages": self.leakages and list(self.leakages),
            "largest": largest,
            "smallest": smallest,
        }

    def in_words(self) -> str:
        """Return the comparison as one sentence."""
        if self.difference is None or self.leakages is None:
            return f"{self.method} and {self.baseline} are not comparable: {self.reason}."
        low, high = self.leakages
        where = f"at leakage {low:.3f}" if high - low < 5e-4 else f"averaged over leakages {low:.3f} to {high:.3f}"
        by = f"the difference in utility is {self.difference}, {where}"
        verdict = f"{self.method} {self.verdict} {self.baseline} at matched leakage"
        if self.verdict == "undecided":
            verdict = f"Whether {self.method} beats {self.baseline} at matched leakage is undecided"
        return f"{verdict}: {by}" + (f" ({self.reason})." if self.reason else ".")


def compare(method: str, mine: Staircase, baseline: str, base: Staircase) -> Comparison:
    """Compare two curves over the leakages that both span (at 41 levels, by the trapezoidal rule), draw by draw.

    Curves that share no leakage are not comparable, unless the one that leaks less throughout also has more utility
    at the other's lowest leakage, with an interval that excludes 0.
    """
    start, end = np.maximum(mine.lowest, base.lowest), np.minimum(mine.highest, base.highest)
    apart = bool(end[0] < start[0])
    present = np.isfinite(start) & np.isfinite(end)
    start, end = np.where(present, start, nan), np.where(present, np.maximum(start, end), nan)
    levels = start[:, None] + _GRID * (end - start)[:, None]
    gap = mine.at(levels) - base.at(levels)
    difference = estimate_of(gap @ _SHARES)
    verdict = "beats" if difference.low > 0 else "does not beat" if difference.high < 0 else "undecided"
    reason = None
    if apart:
        lower = method if mine.highest[0] < base.lowest[0] else baseline
        if verdict != ("beats" if lower == method else "does not beat"):
            spans = (f"{c.lowest[0]:.3f} to {c.highest[0]:.3f}" for c in (mine, base))
            reason = "their leakages do not overlap ({} and {}), and less leakage does not go with more utility"
            return Comparison(method, baseline, "not comparable", reason.format(*spans))
        reason = f"their leakages do not overlap; {lower} leaks less throughout and still has more utility"
    most, least = int(np.argmax(gap[0])), int(np.argmin(gap[0]))
    ends = [(float(gap[0, i]), float(levels[0, i])) for i in (most, least)]
    span = (float(start[0]), float(end[0]))
    return Comparison(method, baseline, verdict, reason, difference, span, *ends)


def estimate_of(columns: FloatArray) -> Estimate:
    """Return column 0 with the percentile interval of the finite draws; no interval if more than half are NaN."""
    draws = columns[1:][np.isfinite(columns[1:])]
    point = float(columns[0])
    if not isfinite(point) or len(draws) == 0 or 2 * len(draws) < len(columns) - 1:
        return Estimate(point, nan, nan, CONFIDENCE)
    return interval(np.concatenate([columns[:1], draws]), CONFIDENCE)


def shown(figure: Estimate | None) -> dict[str, float | None] | None:
    """Return a figure as plain JSON: null if there is none; its ends are null if it has no interval."""
    if figure is None or not isfinite(figure.estimate):
        return None
    return {name: plain(value) for name, value in figure.as_dict().items()}


def plain(value: float | None) -> float | None:
    """Return a number that JSON can hold, or None."""
    return float(value) if value is not None and isfinite(value) else None
