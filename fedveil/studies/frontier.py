"""Utility against leakage: a defence is a curve, not a point, and two defences are compared where they leak alike.

Selection looks at validation figures only; every figure shown is of the test. All intervals are percentile
intervals of the points' bootstrap draws, paired: draw b of every point belongs together.
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

__all__ = ["Comparison", "Frontier", "Point"]

ADVANTAGES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6)
"""Levels shown are chance + a · (1 − chance): with two values 0.55, 0.60 … 0.80."""

NO_FIGURE = Estimate(nan, nan, nan, CONFIDENCE)


@dataclass(frozen=True, eq=False)
class Point:
    """One method at one strength.

    Attributes:
        utility, leakage: of the test: task accuracy, and balanced accuracy of the attacker chosen on validation.
        validation_utility, validation_leakage: what selection may look at; NaN where there is none.
        utility_draws, leakage_draws: bootstrap draws of the test figures, (B,), paired over points.
    """

    method: str
    strength: float | None
    utility: Estimate
    leakage: Estimate
    validation_utility: float
    validation_leakage: float
    utility_draws: FloatArray
    leakage_draws: FloatArray


@dataclass(frozen=True, eq=False)
class Frontier:
    """The points of one task and one attribute.

    A method's curve consists of those of its points that validation leaves undominated, at their test figures; those
    that the test (or a draw) shows to be dominated then fall behind the staircase of the rest.

    Attributes:
        chance: balanced accuracy of guessing, 1 / K.
        prior: accuracy of always guessing the attribute's most frequent value.
        utility_prior: accuracy of always guessing the task's most frequent value.
        floor: balanced accuracy from the true task label alone, or None where it was not measured.
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
        """The points that validation leaves undominated, in order of test leakage (then utility)."""
        chosen = self._chosen(range(len(self.points)))
        return tuple(sorted(chosen, key=lambda i: (self.points[i].leakage.estimate, self.points[i].utility.estimate)))

    @cached_property
    def hypervolumes(self) -> dict[str, Estimate]:
        """The share of the box between reference and ideal that each method's curve dominates.

        Caveat: a staircase is a maximum over noisy points, so the figure is biased upwards, more so with more points
        and fewer people, and the draws add the same bias again. Choosing the points on validation lessens it
        and does not remove it; methods with unlike numbers of strengths are not on a par. NaN without a curve.
        """
        return {method: self._area([method]) for method in self.methods}

    @cached_property
    def hypervolume(self) -> Estimate:
        """The share that at least one method's curve dominates; the same caveat, over more points."""
        return self._area(self.methods)

    def utility_at(self, method: str, leakage: float) -> Estimate | None:
        """Return a method's utility where it leaks so much, or None where it reaches no leakage so low.

        Between neighbouring strengths it lies on the straight line, which time-sharing achieves: a coin decides for
        each person, by itself, at which of the two to release, and all see it. Accuracy is linear in the coin's bias.
        As the coin says nothing about the person, the best attacker is the one who does best on either side, and its
        balanced accuracy is linear too; one who does not see the coin does no better. Above the highest leakage it is
        the best utility. Draws that do not reach the level are dropped, so the interval is conditional on reaching it;
        if more than half are dropped, its ends are NaN.
        """
        if method not in self.methods:
            raise InputError(f"no method {method!r} on this frontier: {nearest(method, self.methods)}")
        return self._utilities_at(method, np.array([leakage], dtype=np.float64))[0]

    def against(self, method: str, baseline: str | None = None) -> Comparison:
        """Compare two methods where both leak alike (default: with the frontier's baseline); see `compare`.

        Where one of them has no curve, they are not comparable.
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
        """How much validation flattered the front: validation less test utility, test less validation leakage.

        Averaged over the front; positive where validation looked better. The interval holds the choice and the
        validation figures fixed and draws test people only. NaN without a front.
        """
        if not self.front:
            return {"utility": NO_FIGURE, "leakage": NO_FIGURE}
        chosen = list(self.front)
        utility, leakage = (figures[chosen].mean(axis=0) for figures in self._figures)
        on_validation = np.array(
            [(self.points[i].validation_utility, self.points[i].validation_leakage) for i in chosen]
        )
        seen_utility, seen_leakage = on_validation.mean(axis=0)
        return {"utility": estimate_of(seen_utility - utility), "leakage": estimate_of(leakage - seen_leakage)}

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON: an E is null where there is no figure, its ends null where there is no interval."""
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
        """Say what the points show, a line each."""
        if not self.front:
            return ["No point has validation figures, so there is no front."]
        counts = Counter(self.points[i].method for i in self.front)
        sizes = Counter(point.method for point in self.points)
        named = ", ".join(f"{method} ({n} of {sizes[method]} points)" for method, n in counts.items())
        lines = [f"On the front, chosen on validation: {named}."]
        lines += [comparison.in_words() for comparison in self.comparisons.values()]
        cost = self.selection_cost
        lines.append(
            f"Validation showed the front better than the test does by {cost['utility']} of utility and "
            f"{cost['leakage']} of leakage, on average; below 0 it showed it worse."
        )
        if self.floor is not None and isfinite(self.floor.estimate):
            under = sum(self.points[i].leakage.estimate < self.floor.estimate for i in self.front)
            lines.append(
                f"The task label by itself gives the attribute away at {self.floor}: whatever allows the task to be "
                f"done without error leaks at least that. Points on the front that leak less, and so cannot: "
                f"{under} of {len(self.front)}."
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
        """By method, the points that validation leaves undominated among its own; a method without any is left out."""
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
