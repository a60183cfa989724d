"""Figures of several seeds: what *these* trained releases reveal, and what a *new* seed's release would.

Symbols: S seeds; for seed s, the true figure m_s of its trained release, its estimate p_s with interval [l_s, h_s] over
people; s² the variance of the m_s between seeds.

**These releases.** The mean of m_1 … m_S. Training is over, so only people vary. Seeds may share test people, and then
their errors do not average out; so the half-widths of the seeds are averaged and not divided by √S. Its coverage does
not depend on the spread between seeds, and a second seed never widens it (`studies/seed_coverage.py`).

**A new seed.** The figure m of the release that one more seed would give, as a prediction:
√(a² + (t·s)²·(1 + 1/S)), where a is the mean half-width and t Student's quantile. It needs three seeds of its own. The
spread may be pooled over the points of a study: if Levene's test does not find spreads to differ, the pooled one
has more degrees of freedom and a smaller t.

Student's interval for the mean, which an earlier version showed, answers neither: with two seeds t is 12.7, and an
attribute that both seeds leak was called not read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri
from scipy.stats import levene
from scipy.stats import t as student

from fedveil.core.figures import Estimate

LEAST = 3
"""The least number of seeds for a figure about a new one."""

CHANCES = (0.0, 1.0)
"""The range of a share of people."""

_ALPHA = 0.05
_SPREADS_DIFFER = 0.1
"""The level of the test for unequal spreads: a lax one, so that pooling needs some evidence in its favour."""


@dataclass(frozen=True)
class Spread:
    """The standard deviation between seeds, and the degrees of freedom behind it."""

    deviation: float
    degrees: int

    @property
    def student(self) -> float:
        """t·s: Student's quantile at 95% times the deviation."""
        return float(student.ppf(1 - _ALPHA / 2, self.degrees) * self.deviation)


def these_releases(figures: Sequence[Estimate], within: tuple[float, float] | None = None) -> Estimate:
    """Return the mean over the seeds' trained releases; see the module. An end is NaN where it is NaN in some seed.

    >>> these_releases([Estimate(0.585, 0.553, 0.618), Estimate(0.570, 0.540, 0.602)], CHANCES)
    Estimate(0.577 [0.546, 0.610] at 0.95)
    """
    points, lows, highs = _columns(figures)
    mean = float(points.mean())
    return _around(mean, float(np.mean(points - lows)), float(np.mean(highs - points)), within)


def new_seed(
    figures: Sequence[Estimate], spread: Spread | None = None, within: tuple[float, float] | None = None
) -> Estimate | None:
    """Return the prediction for the release of a further seed; None with fewer than three seeds.

    Args:
        figures: the seeds' figures.
        spread: the spread between seeds, pooled over points; by default that of these figures alone.
        within: the range of the quantity.
    """
    if len(figures) < LEAST:
        return None
    points, lows, highs = _columns(figures)
    spread = spread or Spread(float(points.std(ddof=1)), len(points) - 1)
    between = spread.student * math.sqrt(1 + 1 / len(points))
    below, above = (float(np.hypot(np.mean(half), between)) for half in (points - lows, highs - points))
    return _around(float(points.mean()), below, above, within)


def pooled_spread(points: Sequence[Sequence[float]]) -> Spread | None:
    """Return the spread between seeds over several points of a study; None if they have few seeds or unlike spreads.

    Args:
        points: for each method and strength, the seeds' estimates; those of fewer than three seeds do not count.
    """
    samples = [np.asarray(sample, dtype=np.float64) for sample in points if len(sample) >= LEAST]
    samples = [sample for sample in samples if np.isfinite(sample).all()]
    if len(samples) < 2:
        return None
    deviations = np.concatenate([np.abs(sample - np.median(sample)) for sample in samples])
    if deviations.max() > 0 and float(levene(*samples, center="median").pvalue) < _SPREADS_DIFFER:
        return None
    degrees = sum(len(sample) - 1 for sample in samples)
    variance = sum((len(sample) - 1) * float(sample.var(ddof=1)) for sample in samples) / degrees
    return Spread(math.sqrt(variance), degrees)


def seed_factor(seeds: int) -> float:
    """Return the factor by which to stretch the spread of the mean of S ≥ 2 seeds drawn with replacement.

    The variance of this mean is s²(S − 1)/S², but a half-width of t·s/√S is needed to compare two methods: for a normal
    distribution, the factor is t/1.96 · √(S/(S − 1)).
    """
    return float(student.ppf(1 - _ALPHA / 2, seeds - 1) / 1.96 * math.sqrt(seeds / (seeds - 1)))


def is_read(figures: Sequence[Estimate], chance: float) -> bool:
    """Return whether some seed's release is read beyond what chance explains.

    The rule leans towards leaking: "not read" needs that no seed's own interval, corrected for the number of seeds
    (Bonferroni), excludes chance, nor that of the mean of these releases.

    >>> is_read([Estimate(0.585, 0.553, 0.618), Estimate(0.570, 0.540, 0.602)], 0.5)
    True
    """
    if these_releases(figures).low > chance:
        return True
    for figure in figures:
        level = (1 - figure.confidence) / 2
        wider = float(ndtri(1 - level / len(figures)) / ndtri(1 - level))
        if figure.estimate - wider * (figure.estimate - figure.low) > chance:
            return True
    return False


def _columns(figures: Sequence[Estimate]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    points, lows, highs = (np.array([getattr(f, end) for f in figures]) for end in ("estimate", "low", "high"))
    return points, lows, highs


def _around(mean: float, below: float, above: float, within: tuple[float, float] | None) -> Estimate:
    lowest, highest = within or (-math.inf, math.inf)
    return Estimate(
        mean,
        float(np.minimum(mean, np.maximum(lowest, mean - below))),
        float(np.maximum(mean, np.minimum(highest, mean + above))),
    )
