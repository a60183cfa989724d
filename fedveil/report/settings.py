"""Settings: a study's methods at their strengths, as planned, each with its finished cells."""

from __future__ import annotations

from dataclasses import dataclass, field

from fedveil.config.cells import Cell
from fedveil.studies.choosing import pay_for_choice
from fedveil.studies.results import CellResult, StudyResults


@dataclass(frozen=True)
class Setting:
    """A method at one strength, with its planned cells and those of them that are finished.

    Attributes:
        label: how it is named, such as "adversarial (strength 2)".
        detail: the part of the label that names the strength; empty if there is none.
    """

    method: str
    strength: float | None
    label: str
    detail: str
    planned: list[Cell] = field(default_factory=list)
    cells: list[CellResult] = field(default_factory=list)


def settings_of(results: StudyResults) -> list[Setting]:
    """Return the planned settings in the study's order, each with its finished cells.

    A report points at the smallest certificate, so the cells' held-out certificates have paid for that choice.
    """
    finished = {cell.id: cell for cell in pay_for_choice(results.cells)}
    varied = {method.name: method.varies.rpartition(".")[2] for method in results.facts.methods}
    settings: dict[tuple[str, float | None], Setting] = {}
    for cell in results.planned:
        key = cell.method, cell.strength
        if key not in settings:
            dimension = varied.get(cell.method, "columns" if cell.method.startswith("drop-columns") else "strength")
            detail = _detail(cell.strength, dimension)
            settings[key] = Setting(cell.method, cell.strength, _label(cell.method, detail), detail)
        settings[key].planned.append(cell)
        if cell.id in finished:
            settings[key].cells.append(finished[cell.id])
    return list(settings.values())


def _label(method: str, detail: str) -> str:
    if not detail:
        return method
    return f"{method[:-1]}, {detail})" if method.endswith(")") else f"{method} ({detail})"


def _detail(strength: float | None, dimension: str) -> str:
    if strength is None:
        return ""
    return f"{strength:g} columns" if dimension == "columns" else f"{dimension} {strength:g}"
