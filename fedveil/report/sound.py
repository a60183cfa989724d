"""One task beside one attribute: the cells that have figures for both, and why the others have not.

A page must bear every study that can be opened: cells whose results lack a part are kept apart and named, never dropped
in silence, and the others are averaged without them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from fedveil.report.figures import figure, inside
from fedveil.studies.frontier import Frontier
from fedveil.studies.results import CellResult, StudyResults

LACKS = (KeyError, TypeError, ValueError, IndexError, AttributeError)
"""What reading a result raises that lacks a part, or holds something else in its place."""


@dataclass(frozen=True, eq=False)
class Pair:
    """The sound cells of a study for one task and one attribute; `lacking` says by cell id what another lacks."""

    task: str
    attribute: str
    rows: list[dict[str, Any]]
    frontier: Frontier | None
    lacking: dict[str, str]


def tasks_of(results: StudyResults) -> list[str]:
    """Return the tasks with figures, or else those that were planned."""
    planned = results.study.get("tasks") or [inside(results.study, "data", "target")]
    return [str(task) for task in results.tasks or planned if task]


def attributes_of(results: StudyResults) -> list[str]:
    """Return the attributes with figures, or else those that were planned."""
    planned = inside(results.study, "attacks", "attributes") or inside(results.study, "data", "sensitive")
    return [str(name) for name in results.attributes or planned or []]


def pair_of(results: StudyResults, task: str, attribute: str) -> Pair:
    """Sort a study's cells into sound ones and others, and put the sound ones together."""
    sound, lacking = [], {}
    for cell in results.cells:
        needed = (("utility", task, "accuracy"), ("leakage", attribute, "worst", "balanced_accuracy"))
        lacks = [f"no {path[0]} of {path[1]}" for path in needed if figure(inside(cell.result, *path)) is None]
        if lacks:
            lacking[cell.id] = " and ".join(lacks)
        else:
            sound.append(_only(cell, task, attribute))
    try:
        return Pair(task, attribute, *_together(results, sound, task, attribute), lacking)
    except LACKS:
        for cell in list(sound):  # some cell lacks some other part: find out which
            try:
                _together(results, [cell], task, attribute)
            except LACKS as fault:
                lacking[cell.id] = f"part of its result is missing ({fault})"
                sound.remove(cell)
    return Pair(task, attribute, *_together(results, sound, task, attribute), lacking)


def _together(
    results: StudyResults, cells: list[CellResult], task: str, attribute: str
) -> tuple[list[dict[str, Any]], Frontier | None]:
    if not cells:
        return [], None
    alone = StudyResults(results.folder, results.facts, cells, [], [])
    return alone.rows, alone.frontier(task, attribute)


def _only(cell: CellResult, task: str, attribute: str) -> CellResult:
    """Return the cell with nothing but this task and this attribute in its result."""
    kept = {
        part: {name: found[name]} if isinstance(found, dict) and name in found else {}
        for part, name in (("utility", task), ("floor", task), ("leakage", attribute), ("cotrained", attribute))
        for found in [cell.result.get(part)]
    }
    return replace(cell, result={**cell.result, **kept})
