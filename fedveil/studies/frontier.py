"""Utility against leakage: a defence is a curve, not a point, and two defences are compared at equal leakage.

Selection looks at validation figures only; every figure shown was measured on the test people. All intervals are
percentile intervals of the points' bootstrap draws, which are paired: draw b resamples the same people at every point.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isfinite, nan
from typing import Any

import numpy as np

from fedveil.core.arrays import FloatArray
from fedveil.core.errors import InputError, nearest
from fedveil.core.figures import Estimate
from fedveil.studies.hypervolume import (
    CONFIDENCE,
    Comparison,
    Staircase,
    compare,
    estimate_of,
    plain,
    shown,
    undominated,
)
from fedveil.studies.seeds import is_read

__all__ = ["Comparison", "Frontier", "Point"]

ADVANTAGES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6)
"""The levels of leakage shown are chance + a · (1 − chance): for an attribute with two values 0.55, 0.60 … 0.80."""

NO_FIGURE = Estimate(nan, nan, nan, CONFIDENCE)


@dataclass(frozen=True, eq=False)
class Point:
    """One method at one strength.

    Attributes:
        utility, leakage: on the test people: task accuracy, and balanced accuracy of the strongest attacker.
        validation_utility, validation_leakage: what selection may look at; NaN if not measured.
        utility_draws, leakage_draws: bootstrap draws of the test figures, (B,), paired over points.
        seed_leakages: the leakage of each seed, with its own interval.
    """

    method: str
    strength: float | None
    utility: Estimate
    leakage: Estimate
    validation_utility: float
    validation_leakage: float
    utility_draws: FloatArray
    leakage_draws: FloatArray
    seed_leakages: tuple[Estimate, ...] = ()

    def read_beyond(self, chance: float) -> bool:
        """Return whether an attacker reads the attribute in some seed's release; see `fedveil.studies.seeds`."""
        return is_read(self.seed_leakages or [self.leakage], chance)


@dataclass(frozen=True, eq=False)
class Frontier:
    """The points of one task and one attribute.

    A method's curve consists of those of its points that are undominated on validation, at their test figures. A point
    of the curve that is dominated on the test (or in a draw) lies behind the staircase of the others.

    Attributes:
        chance: balanced accuracy of guessing, 1 / K.
        prior: accuracy of always guessing the attribute's most frequent value.
        utility_prior: accuracy of always guessing the task's most frequent value.
        floor: balanced accuracy from the true task label alone, or None if it was not measured.
        baseline: the method that the others are compared with.
    """

    points: tuple[Point, ...]
    chance: float
    prior: float
    utility_prior: float
    floor: Estimate | None
    baseline: str = "drop-columns"

    @classmethod
    def of(
        cls,
        points: Iterable[Point],
        *,
        chance: float,
        prior: float,
        utility_prior: float,
        floor: Estimate | None,
        baseline: str = "drop-columns",
    ) -> Frontier:
        """Check the points and put them together."""
        return cls(tuple(points), float(chance), float(prior), float(utility_prior), floor, baseline)

    def __post_init__(self) -> None:
        if not (0 < self.chance < 1 and 0 <= self.utility_prior < 1):
            raise InputError(
                f"chance ({self.chance}) must lie in (0, 1), utility_prior ({self.utility_prior}) in [0, 1)"
            )
        draws = {array.shape for point in self.points for array in (point.utility_draws, point.leakage_draws)}
        if len(draws) > 1 or any(len(shape) != 1 for shape in draws):
            raise InputError(f"points of one frontier need draws of one length, but have shapes {sorted(draws)}")
        for point in self.points:
            if not (isfinite(point.utility.estimate) and isfinite(point.leakage.estimate)):
                raise InputError(f"{point.method} at strength {point.strength} has no test figure; leave the point out")

    @cached_property
    def methods(self) -> tuple[str, ...]:
        """Every method, in order of first appearance."""
        return tuple(dict.fromkeys(point.method for point in self.points))

    @cached_property
    def front(self) -> tuple[int, ...]:
        """The points that are undominated on validation, in order of test leakage (then utility)."""
        chosen = self._chosen(range(len(self.points)))
        return tuple(sorted(chosen, key=lambda i: (self.points[i].leakage.estimate, self.points[i].utility.estimate)))

    @cached_property
    def hypervolumes(self) -> dict[str, Estimate]:
        """The share of the box between reference and ideal that each method's curve dominates.

        Caveat: a staircase is a maximum over noisy points, so the figure is biased upwards, more so with more points
        and fewer people, and the draws add the same bias again. Choosing the points on validation reduces the bias but
        does not remove it, and methods with different numbers of strengths are affected differently. NaN if a method
        has no curve.
        """
        return {method: self._area([method]) for method in self.methods}

    @cached_property
    def hypervolume(self) -> Estimate:
        """The share that at least one method's curve dominates; the caveat of `hypervolumes` applies even more."""
        return self._area(self.methods)

    def utility_at(self, method: str, leakage: float) -> Estimate | None:
        """Return a method's utility at a level of leakage, or None if its leakage is never that low.

        Between neighbouring strengths, utility is interpolated linearly. Time-sharing achieves this: an independent
        coin, which everybody sees, decides for each person at which of the two strengths to release. Accuracy is linear
        in the coin's bias. As the coin says nothing about the person, the best attacker does its best on either side,
        and its balanced accuracy is linear too; an attacker who does not see the coin does no better. Above the highest
        leakage, the result is the best utility. Draws that do not reach the level are dropped, so the interval is
        conditional on reaching it; if more than half are dropped, its ends are NaN.
        """
        if method not in self.methods:
            raise InputError(f"no method {method!r} on this frontier: {nearest(method, self.methods)}")
        return self._utilities_at(method, np.array([leakage], dtype=np.float64))[0]

    def against(self, method: str, baseline: str | None = None) -> Comparison:
        """Compare a method with a baseline (default: the frontier's) at equal leakage; see `compare`.

        If one of them has no curve, they are not comparable.
        """
        baseline = self.baseline if baseline is None else baseline
        for name in (method, baseline):
            if name not in self._curves:
                why = "no validation figures" if name in self.methods else "no points"
                return Comparison(method, baseline, "not comparable", f"{name} has {why}")
        return compare(method, self._curves[method], baseline, self._curves[baseline])

    @cached_property
    def comparisons(self) -> dict[str, Comparison]:
        """Every other method against the baseline."""
        return {method: self.against(method) for method in self.methods if method != self.baseline}

    @cached_property
    def selection_cost(self) -> dict[str, Estimate]:
        """How much validation flattered the front: validation minus test utility, and test minus validation leakage.

        Both are averaged over the front, and are positive if validation looked better. The interval holds the choice
        and the validation figures fixed and resamples test people only. NaN without a front.
        """
        if not self.front:
            return {"utility": NO_FIGURE, "leakage": NO_FIGURE}
        chosen = list(self.front)
        utility, leakage = (figures[chosen].mean(axis=0) for figures in self._figures)
        on_validation = np.array(
            [(self.points[i].validation_utility, self.points[i].validation_leakage) for i in chosen]
        )
        validation_utility, validation_leakage = on_validation.mean(axis=0)
        return {
            "utility": estimate_of(validation_utility - utility),
            "leakage": estimate_of(leakage - validation_leakage),
        }

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON: a figure that does not exist is null; without an interval its ends are null."""
        on_front = set(self.front)
        levels = np.array([round(self.chance + a * (1 - self.chance), 4) for a in ADVANTAGES])
        return {
            "points": [
                {
                    "method": point.method,
                    "strength": plain(point.strength),
                    "utility": shown(point.utility),
                    "leakage": shown(point.leakage),
                    "validation_utility": plain(point.validation_utility),
                    "validation_leakage": plain(point.validation_leakage),
                    "on_front": i in on_front,
                }
                for i, point in enumerate(self.points)
            ],
            "front": list(self.front),
            "hypervolume": shown(self.hypervolume),
            "hypervolumes": {method: shown(area) for method, area in self.hypervolumes.items()},
            "chance": self.chance,
            "prior": plain(self.prior),
            "utility_prior": self.utility_prior,
            "floor": shown(self.floor),
            "baseline": self.baseline,
            "comparisons": {method: comparison.as_dict() for method, comparison in self.comparisons.items()},
            "utility_at": {
                "leakages": levels.tolist(),
                "methods": {m: [shown(utility) for utility in self._utilities_at(m, levels)] for m in self.methods},
            },
            "selection_cost": {name: shown(cost) for name, cost in self.selection_cost.items()},
            "confidence": CONFIDENCE,
        }

    def in_words(self) -> list[str]:
        """Return sentences about what the points show."""
        if not self.front:
            return ["No point has validation figures, so there is no front."]
        counts = Counter(self.points[i].method for i in self.front)
        sizes = Counter(point.method for point in self.points)
        on_front = ", ".join(f"{method} ({n} of {sizes[method]} points)" for method, n in counts.items())
        lines = [f"On the front, chosen on validation: {on_front}."]
        lines += [comparison.in_words() for comparison in self.comparisons.values()]
        cost = self.selection_cost
        lines.append(
            f"On average, the front looked better on validation than on the test by {cost['utility']} of utility and "
            f"{cost['leakage']} of leakage; a figure below 0 means that it looked worse."
        )
        if self.floor is not None and isfinite(self.floor.estimate):
            under = sum(self.points[i].leakage.estimate < self.floor.estimate for i in self.front)
            lines.append(
                f"The task label by itself reveals the attribute with balanced accuracy {self.floor}: releases that "
                f"allow the task to be done without error leak at least that much. Points on the front that leak less, "
                f"and so do not allow this: {under} of {len(self.front)}."
            )
        return lines

    @cached_property
    def _figures(self) -> tuple[FloatArray, FloatArray]:
        """Utility and leakage on the test, (points, 1 + B): the sample, then the draws."""
        utility = [np.concatenate([[point.utility.estimate], point.utility_draws]) for point in self.points]
        leakage = [np.concatenate([[point.leakage.estimate], point.leakage_draws]) for point in self.points]
        return np.array(utility, dtype=np.float64), np.array(leakage, dtype=np.float64)

    @cached_property
    def _undominated(self) -> dict[str, list[int]]:
        """By method, its points that none of its points dominates on validation; methods without any are left out."""
        members: dict[str, list[int]] = {}
        for i, point in enumerate(self.points):
            members.setdefault(point.method, []).append(i)
        chosen = {method: self._chosen(indices) for method, indices in members.items()}
        return {method: indices for method, indices in chosen.items() if indices}

    @cached_property
    def _curves(self) -> dict[str, Staircase]:
        return {method: self._staircase(indices) for method, indices in self._undominated.items()}

    def _chosen(self, indices: Sequence[int]) -> list[int]:
        utility = np.array([self.points[i].validation_utility for i in indices], dtype=np.float64)
        leakage = np.array([self.points[i].validation_leakage for i in indices], dtype=np.float64)
        return [i for i, stays in zip(indices, undominated(utility, leakage), strict=True) if stays]

    def _staircase(self, indices: list[int]) -> Staircase:
        utility, leakage = self._figures
        return Staircase.of(utility[indices], leakage[indices])

    def _area(self, methods: Iterable[str]) -> Estimate:
        indices = [i for method in methods for i in self._undominated.get(method, ())]
        if not indices:
            return NO_FIGURE
        return estimate_of(self._staircase(indices).area(self.chance, self.utility_prior))

    def _utilities_at(self, method: str, levels: FloatArray) -> list[Estimate | None]:
        if method not in self._curves:
            return [None] * len(levels)
        curve = self._curves[method]
        utilities = curve.at(np.broadcast_to(levels, (len(curve.leakage), len(levels))))
        return [estimate_of(column) if isfinite(column[0]) else None for column in utilities.T]
