"""The strength that reaches a target leakage, by bisection on validation figures; test figures only at the end.

Symbols: s a method's strength, ℓ(s) the strongest attacker's balanced accuracy on validation people, averaged over
seeds. The search assumes that ℓ moves in one direction over the range of the study's strengths; where it does not, the
answer is still a point that was tried, but maybe not the best one. A target is called unreachable only after every
strength that the study lists has been tried.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from fedveil.config import parts
from fedveil.config.study import Method
from fedveil.core.errors import InputError
from fedveil.studies.check import Plan
from fedveil.studies.results import CellResult
from fedveil.studies.rows import CHANCES, averaged
from fedveil.studies.runner import Listener
from fedveil.studies.running import run_study
from fedveil.studies.store import Store


@dataclass(frozen=True)
class Tried:
    """A strength that was tried: what selection saw, and what it never looked at."""

    strength: float
    validation_leakage: float
    validation_utility: float
    leakage: dict[str, float]
    utility: dict[str, float]

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "strength": self.strength,
            "validation": {"leakage": self.validation_leakage, "utility": self.validation_utility},
            "test": {"leakage": {"balanced_accuracy": self.leakage}, "utility": {"accuracy": self.utility}},
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

        The ends come first. Where none that was tried reaches the target, the study's other strengths are tried before
        it is called unreachable. A strength that failed is left out.
        """
        strengths = sorted(self.method.strengths or [])
        rest = [one for one in strengths if one not in self.tried and one not in self.failed]
        if ends := [end for end in (strengths[0], strengths[-1]) if end in rest]:
            return ends[0]
        known = [self.tried[strength] for strength in sorted(self.tried)]
        for here, there in pairwise(known):
            safe = min(here.validation_leakage, there.validation_leakage)
            if safe <= self.target < max(here.validation_leakage, there.validation_leakage):
                if self.target - safe <= self.tolerance:
                    return None
                made = sum(strength not in strengths for strength in (*self.tried, *self.failed))
                return self._between(here.strength, there.strength) if made < self.steps else None
        reached = any(one.validation_leakage <= self.target for one in known)
        return rest[0] if rest and not reached else None

    def _between(self, low: float, high: float) -> float | None:
        middle = math.sqrt(low * high) if low > 0 and high / low > 8 else (low + high) / 2
        # More than four digits decide nothing, and four a person can type.
        middle = float(round(middle)) if self.whole else float(f"{middle:.4g}")
        return None if middle in self.tried or middle in self.failed or not low < middle < high else middle

    @property
    def answer(self) -> tuple[str, Tried] | None:
        """Return "reached" with the most useful safe strength, or "unreachable" with the nearest to the target."""
        if not self.tried:
            return None
        safe = [one for one in self.tried.values() if one.validation_leakage <= self.target]
        if safe:
            return "reached", max(safe, key=lambda one: (one.validation_utility, one.validation_leakage))
        return "unreachable", min(self.tried.values(), key=lambda one: one.validation_leakage)

    @property
    def why(self) -> str | None:
        """Say which strengths could not be computed; None where all could."""
        return "; ".join(f"strength {strength:g}: {why}" for strength, why in self.failed.items()) or None

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        start = {"method": self.method.name, "target": self.target}
        if self.answer is None:
            return {**start, "status": "failed", "why": self.why, "tried": []}
        status, point = self.answer
        cost = {
            "leakage": point.leakage["estimate"] - point.validation_leakage,
            "utility": point.validation_utility - point.utility["estimate"],
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
    """Search all methods that have strengths (or one), side by side; every strength tried is a cell that stays."""
    attribute = attribute or _only(plan.study.asked, "attribute")
    task = task or plan.study.all_tasks[0]
    if attribute not in plan.study.asked or task not in plan.study.all_tasks:
        raise InputError(f"the study asks about {plan.study.asked} and {plan.study.all_tasks}; choose among them")
    searches = [Search(one, target, tolerance, _whole(one), steps=steps) for one in _tunable(plan, method)]
    store = Store(folder)
    while wanted := {one.method.name: strength for one in searches if (strength := one.wanted()) is not None}:
        cells = [
            plan.cell(search.method, wanted[search.method.name], seed)
            for search in searches
            if search.method.name in wanted
            for seed in plan.study.seeds
        ]
        heard = listener(len(cells)) if listener else Listener()
        ran = run_study(plan, folder, workers=workers, command=command, listener=heard, cells=cells)
        for search in searches:
            if search.method.name not in wanted:
                continue
            own = [cell for cell in cells if cell.method == search.method.name]
            failed = [ran.failed[cell.id] for cell in own if cell.id in ran.failed]
            if failed:
                search.failed[wanted[search.method.name]] = failed[0]
                continue
            results = [
                CellResult(**cell.as_dict(), folder=store.cell(cell), result=store.result(cell) or {}) for cell in own
            ]
            search.tried[wanted[search.method.name]] = _tried(results, task, attribute)
    return searches


def _tried(cells: list[CellResult], task: str, attribute: str) -> Tried:
    served = [cell.result["utility"][task] for cell in cells]
    worst = [cell.result["leakage"][attribute]["worst"] for cell in cells]
    return Tried(
        strength=float(cells[0].strength or 0.0),
        validation_leakage=float(np.mean([one["validation_balanced_accuracy"] for one in worst])),
        validation_utility=float(np.mean([one["validation_accuracy"] for one in served])),
        leakage=averaged([one["balanced_accuracy"] for one in worst], CHANCES).as_dict(),
        utility=averaged([one["accuracy"] for one in served], CHANCES).as_dict(),
    )


def _tunable(plan: Plan, name: str | None) -> Iterable[Method]:
    methods = [plan.method(name)] if name else [m for m in plan.methods if len(m.strengths or []) > 1]
    for method in methods:
        if len(method.strengths or []) < 2:
            raise InputError(f"methods.{method.name}: needs two strengths at least, between which to search")
    if not methods:
        raise InputError("no method of the study has two strengths, between which to search; list them")
    return methods


def _whole(method: Method) -> bool:
    """Return whether a method's strength counts something, such as columns."""
    part, setting = method.varied
    own = getattr(method, part)
    kind = parts.game_class(own.kind) if part == "game" else parts.shield_class(own.kind)
    members = set(parts.members(parts.settings_of(kind)[setting].annotation))
    return int in members and float not in members


def _only(names: list[str], what: str) -> str:
    if len(names) > 1:
        raise InputError(f"the study has several {what}s; name one with --{what}: {', '.join(names)}")
    return names[0]
