"""The largest of several attackers' figures, with an interval that holds although the largest was taken.

Symbols: attacker j's true figure A_j on the population, its estimate Â_j on the victims, its bootstrap draws A*_j, its
own interval [l_j, h_j] at the same level, z the normal quantile of that level. What a release gives away to the
attackers tried is θ = max_j A_j, whose natural estimate max_j Â_j leans upwards: the largest of several estimates is
often one that was lucky.

Lower end. With probability 1 − α/2 no attacker's studentised error (Â_j − A_j)/s_j exceeds c, the quantile of the
largest such error over the bootstrap draws, which are the same people for all attackers. Then θ ≥ A_j ≥ Â_j − c·s_j for
all j at once, so max_j (Â_j − c·s_j) is a lower end (s_j is taken as (Â_j − l_j)/z, so that intervals that were widened
for few victims stay wide).

Upper end. θ is the true figure of some attacker, whose own upper end it exceeds with probability at most α/2; so the
largest upper end of all attackers is an upper end, whichever attacker it is.

Guarantee: none beyond that of the bootstrap; `studies/attacker_coverage.py` measures how often the interval holds.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import ndtr, ndtri

from fedveil.core.figures import Estimate


def largest(
    figures: Sequence[Estimate], draws: Sequence[np.ndarray] | None = None, confidence: float = 0.95
) -> tuple[int, Estimate]:
    """Return which attacker's figure is largest, and that figure with an interval for having taken the largest.

    Args:
        figures: each attacker's figure with its own interval.
        draws: each attacker's figure in the sample (entry 0) and in every bootstrap draw, the same for all. Without
            them, as for attackers on different records, c is Bonferroni's quantile.
        confidence: the level of all intervals.

    >>> largest([Estimate(0.6, 0.57, 0.63), Estimate(0.58, 0.55, 0.61)])
    (0, Estimate(0.600 [0.566, 0.630] at 0.95))
    """
    points = np.array([figure.estimate for figure in figures])
    lows, highs = (np.array([getattr(figure, end) for figure in figures]) for end in ("low", "high"))
    first = int(points.argmax())
    if len(figures) == 1:
        return 0, figures[0]
    single, shared = (float(ndtri(1 - (1 - confidence) / 2 / count)) for count in (1, len(figures)))
    # never more than Bonferroni's: draws of an attacker that reads nothing may hardly vary, with rare spikes
    stretch = (shared if draws is None else min(shared, quantile_of_largest(draws, confidence))) / single
    low = float((points - stretch * (points - lows)).max())
    point = float(points[first])
    return first, Estimate(point, min(low, point), max(float(highs.max()), point), confidence)


def quantile_of_largest(draws: Sequence[np.ndarray], confidence: float) -> float:
    """Return c: the (1 + confidence)/2 quantile of the largest studentised error; at least that of one attacker."""
    errors = np.stack([values[1:] - values[0] for values in draws])
    spread = np.nanstd(errors, axis=1, keepdims=True)
    varying = spread[:, 0] > 0
    single = float(ndtri((1 + confidence) / 2))
    if not varying.any():
        return single
    worst = np.nanmax(errors[varying] / spread[varying], axis=0)
    return max(single, float(np.nanquantile(worst, (1 + confidence) / 2)))


def level_of(quantile: float) -> float:
    """Return the two-sided level of one attacker's interval that reaches `quantile` standard errors.

    >>> round(level_of(1.96), 3)
    0.95
    """
    return float(2 * ndtr(quantile) - 1)
