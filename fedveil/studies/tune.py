"""Search for the strength that reaches a target leakage, by bisection on validation figures.

Symbols: s a method's strength, ℓ(s) the upper end of the interval of the strongest attacker's balanced accuracy on
validation people, averaged over seeds. The search assumes that ℓ moves in one direction over the range of the study's
strengths; if it does not, the answer is still a strength that was tried, but maybe not the best one. A target is called
unreachable only after every strength that the study lists has been tried.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from fedveil.config import parts
from fedveil.config.study import Method
from fedveil.core.errors import InputError
from fedveil.core.figures import Estimate
from fedveil.studies.check import Plan
from fedveil.studies.model import CellFigures
from fedveil.studies.runner import Listener
from fedveil.studies.running import run_study
from fedveil.studies.seeds import CHANCES, these_releases
from fedveil.studies.store import Store

REACHED = "reached"
BY_THE_ESTIMATE = "reached by the estimate, not by its interval"
ON_VALIDATION = "reached on validation people, not on test people"
UNREACHABLE = "unreachable"


@dataclass(frozen=True)
class Tried:
    """A strength that was tried: validation figures, which the choice looks at, and test figures, which it does not."""

    strength: float
    on_validation: Estimate
    validation_utility: float
    leakage: Estimate
    utility: Estimate

    @property
    def validation_leakage(self) -> float:
        """The leakage on validation people, without its interval."""
        return self.on_validation.estimate

    @property
    def possible_leakage(self) -> float:
        """The upper end of the interval on validation people, which the search brings below the target."""
        high = self.on_validation.high
        return self.validation_leakage if math.isnan(high) else high

    def status(self, target: float) -> str:
        """Say what can be backed about a strength that validation shows to reach the target.

        It is reached if the target lies at or above the upper end of the interval on test people.
        """
        if self.leakage.high <= target:
            return REACHED
        return BY_THE_ESTIMATE if self.leakage.estimate <= target else ON_VALIDATION

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "strength": self.strength,
            "validation": {
                "leakage": self.validation_leakage,
                "leakage_interval": self.on_validation.as_dict(),
                "utility": self.validation_utility,
            },
            "test": {
                "leakage": {"balanced_accuracy": self.leakage.as_dict()},
                "utility": {"accuracy": self.utility.as_dict()},
            },
        }


@dataclass
class Search:
    """One method's search between its weakest and its strongest strength."""

    method: Method
    target: float
    tolerance: float
    whole: bool
    tried: dict[float, Tried] = field(default_factory=dict)
    failed: dict[float, str] = field(default_factory=dict)
    steps: int = 50

    def wanted(self) -> float | None:
        """Return the next strength to try; None when the search is over.

        The ends of the range come first. If no strength tried reaches the target, the study's other strengths are tried
        before the target is called unreachable. A strength that failed is left out.
        """
        strengths = sorted(self.method.strengths or [])
        rest = [strength for strength in strengths if strength not in self.tried and strength not in self.failed]
        if ends := [end for end in (strengths[0], strengths[-1]) if end in rest]:
            return ends[0]
        tried = [self.tried[strength] for strength in sorted(self.tried)]
        for lower, upper in pairwise(tried):
            safe = min(lower.possible_leakage, upper.possible_leakage)
            if safe <= self.target < max(lower.possible_leakage, upper.possible_leakage):
                if self.target - safe <= self.tolerance:
                    return None
                bisections = sum(strength not in strengths for strength in (*self.tried, *self.failed))
                return self._between(lower.strength, upper.strength) if bisections < self.steps else None
        reached = any(point.possible_leakage <= self.target for point in tried)
        return rest[0] if rest and not reached else None

    def _between(self, low: float, high: float) -> float | None:
        middle = math.sqrt(low * high) if low > 0 and high / low > 8 else (low + high) / 2
        # Four digits are enough to decide, and few enough to type.
        middle = float(round(middle)) if self.whole else float(f"{middle:.4g}")
        return None if middle in self.tried or middle in self.failed or not low < middle < high else middle

    @property
    def answer(self) -> tuple[str, Tried] | None:
        """Return a strength and what can be said of it; None if no strength could be computed.

        Chosen is the most useful of the strengths whose interval on validation people reaches the target; if there is
        none, of those whose estimate does; if there is none either, the strength nearest to the target is
        returned as "unreachable". Test figures decide nothing but what may be said.
        """
        if not self.tried:
            return None
        tried = list(self.tried.values())
        for safe in (
            [point for point in tried if point.possible_leakage <= self.target],
            [point for point in tried if point.validation_leakage <= self.target],
        ):
            if safe:
                best = max(safe, key=lambda point: (point.validation_utility, point.validation_leakage))
                return best.status(self.target), best
        return UNREACHABLE, min(tried, key=lambda point: point.validation_leakage)

    @property
    def why(self) -> str | None:
        """Say which strengths could not be computed, and why; None if all could."""
        return "; ".join(f"strength {strength:g}: {why}" for strength, why in self.failed.items()) or None

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        start = {"method": self.method.name, "target": self.target}
        if self.answer is None:
            return {**start, "status": "failed", "why": self.why, "tried": []}
        status, point = self.answer
        cost = {
            "leakage": point.leakage.estimate - point.validation_leakage,
            "utility": point.validation_utility - point.utility.estimate,
        }
        tried = [self.tried[strength].as_dict() for strength in sorted(self.tried)]
        return {
            **start,
            "status": status,
            **point.as_dict(),
            "selection_cost": cost,
            "tried": tried,
            "why": self.why,
        }


def tune(
    plan: Plan,
    target: float,
    folder: Path,
    *,
    method: str | None = None,
    attribute: str | None = None,
    task: str | None = None,
    tolerance: float = 0.005,
    steps: int = 8,
    workers: int | None = 1,
    command: str = "",
    listener: Callable[[int], Listener] | None = None,
) -> list[Search]:
    """Search all methods that have strengths (or one of them) in parallel; the cells of every strength tried stay."""
    attribute = attribute or _only(plan.study.asked, "attribute")
    task = task or plan.study.all_tasks[0]
    if attribute not in plan.study.asked or task not in plan.study.all_tasks:
        raise InputError(
            f"--attribute {attribute}, --task {task}: the study has the attributes {', '.join(plan.study.asked)} and "
            f"the tasks {', '.join(plan.study.all_tasks)}; choose among them"
        )
    searches = [Search(chosen, target, tolerance, _whole(chosen), steps=steps) for chosen in _tunable(plan, method)]
    store = Store(folder)
    while wanted := {s.method.name: strength for s in searches if (strength := s.wanted()) is not None}:
        cells = [
            plan.cell(search.method, wanted[search.method.name], seed)
            for search in searches
            if search.method.name in wanted
            for seed in plan.study.seeds
        ]
        reporting = listener(len(cells)) if listener else Listener()
        ran = run_study(plan, folder, workers=workers, command=command, listener=reporting, cells=cells)
        for search in searches:
            if search.method.name not in wanted:
                continue
            strength = wanted[search.method.name]
            tried = [cell for cell in cells if cell.method == search.method.name]
            results = [result for cell in tried if (result := store.result(cell)) is not None]
            failed = [ran.failed[cell.id] for cell in tried if cell.id in ran.failed]
            if failed or len(results) < len(tried):
                search.failed[strength] = failed[0] if failed else "a result cannot be read; run the same command again"
            else:
                search.tried[strength] = _tried(strength, results, task, attribute)
    return searches


def _tried(strength: float, results: Sequence[CellFigures], task: str, attribute: str) -> Tried:
    """Average the cells of one strength over their seeds."""
    served = [result.utility[task] for result in results]
    strongest = [result.strongest(attribute) for result in results]
    return Tried(
        strength=float(strength),
        on_validation=these_releases(
            [figure for result in results if (figure := result.leakage[attribute].validation_leakage) is not None],
            CHANCES,
        ),
        validation_utility=float(np.mean([figures.validation_accuracy for figures in served])),
        leakage=these_releases([figures.balanced_accuracy for figures in strongest], CHANCES),
        utility=these_releases([figures.accuracy for figures in served], CHANCES),
    )


def _tunable(plan: Plan, name: str | None) -> Iterable[Method]:
    methods = [plan.method(name)] if name else [m for m in plan.methods if len(m.strengths or []) > 1]
    for method in methods:
        if len(method.strengths or []) < 2:
            raise InputError(f"methods.{method.name}: has fewer than two strengths to search between; list two or more")
    if not methods:
        raise InputError("no method of the study has two strengths to search between; list two or more")
    return methods


def _whole(method: Method) -> bool:
    """Return whether a method's strength counts something, such as columns."""
    part, setting = method.varied
    settings = getattr(method, part)
    kind = parts.game_class(settings.kind) if part == "game" else parts.shield_class(settings.kind)
    allowed = set(parts.alternatives(parts.settings_of(kind)[setting].annotation))
    return int in allowed and float not in allowed


def _only(names: list[str], what: str) -> str:
    if len(names) > 1:
        raise InputError(f"the study has several {what}s; name one with --{what}: {', '.join(names)}")
    return names[0]
