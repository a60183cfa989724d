"""Figures as a page shows them: four digits, or None if there is none. Means are computed from rounded figures."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from fedveil.core.figures import Estimate
from fedveil.studies.seeds import these_releases


class Figure(NamedTuple):
    """An estimate and the ends of its interval, four digits each."""

    estimate: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.estimate:.3f} [{self.low:.3f}, {self.high:.3f}]"


def number(value: float | None) -> float | None:
    """Return a number rounded to four digits, or None if it is not finite.

    >>> number(0.123456), number(float("nan")), number(None)
    (0.1235, None, None)
    """
    return None if value is None or not math.isfinite(value) else round(float(value), 4)


def figure(estimate: Estimate | None) -> Figure | None:
    """Return an estimate with its interval, or None if it is missing; a missing end is replaced by the estimate.

    >>> print(figure(Estimate(0.8, 0.75, float("nan"))))
    0.800 [0.750, 0.800]
    """
    middle = None if estimate is None else number(estimate.estimate)
    if estimate is None or middle is None:
        return None
    low, high = number(estimate.low), number(estimate.high)
    return Figure(middle, middle if low is None else low, middle if high is None else high)


def mean_figure(estimates: Iterable[Estimate | None], within: tuple[float, float] | None = None) -> Figure | None:
    """Return the mean over seeds, with its interval as in a study's rows; None if no seed has a figure."""
    figures = [shown for shown in map(figure, estimates) if shown is not None]
    if len(figures) < 2:
        return figures[0] if figures else None
    return figure(these_releases([Estimate(*shown) for shown in figures], within))
