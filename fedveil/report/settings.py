"""Settings: a study's methods at their strengths, as planned, with what has come of each."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fedveil.report.figures import known_certificates
from fedveil.studies.results import CellResult, StudyResults


@dataclass(frozen=True)
class Setting:
    """A method at one strength, with its planned cells and those of them that are finished."""

    method: str
    strength: float | None
    label: str
    detail: str
    planned: list[dict[str, Any]] = field(default_factory=list)
    cells: list[CellResult] = field(default_factory=list)


def settings_of(results: StudyResults) -> list[Setting]:
    """Return the planned settings in the study's order, each with what has come of it."""
    finished = {cell.id: cell for cell in results.cells}
    dimensions = {
        method["name"]: str(method.get("varies") or "game.strength").rpartition(".")[2]
        for method in results.study.get("methods", [])
        if isinstance(method, Mapping) and "name" in method
    }
    found: dict[tuple[str, float | None], Setting] = {}
    for cell in results.planned:
        method, strength = str(cell["method"]), cell["strength"]
        if (method, strength) not in found:
            named = dimensions.get(method, "columns" if method.startswith("drop-columns") else "strength")
            label, detail = _label(method, strength, named), _detail(strength, named)
            found[method, strength] = Setting(method, strength, label, detail)
        found[method, strength].planned.append(cell)
        if cell["id"] in finished:
            found[method, strength].cells.append(finished[cell["id"]])
    return list(found.values())


def bound_on_balanced_accuracy(setting: Setting, attribute: str) -> float | None:
    """Return what no attacker's balanced accuracy can exceed, where every finished cell of the setting proves it."""
    bounds = []
    for cell in setting.cells:
        proved = [
            float(one["bound"])
            for one in known_certificates(cell.result, attribute)
            if one["quantity"] == "balanced accuracy" and one["direction"] == "upper"
        ]
        if not proved:
            return None
        bounds.append(min(proved))
    # Printed bounds are rounded to the safe side: up.
    return math.ceil(round(max(bounds) * 1e4, 6)) / 1e4 if bounds else None


def _label(method: str, strength: float | None, dimension: str) -> str:
    detail = _detail(strength, dimension)
    if not detail:
        return method
    return f"{method[:-1]}, {detail})" if method.endswith(")") else f"{method} ({detail})"


def _detail(strength: float | None, dimension: str) -> str:
    if strength is None:
        return ""
    return f"{strength:g} columns" if dimension == "columns" else f"{dimension} {strength:g}"
