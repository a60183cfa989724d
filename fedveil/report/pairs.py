"""One task with one attribute: the cells that have figures for both, their frontier, and the points to report.

A page can be made of every study that can be opened: cells that lack a figure are named, never silently dropped, and
the others are averaged without them. Points are chosen by validation figures only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from fedveil.core.errors import InputError
from fedveil.studies.frontier import Frontier, Point
from fedveil.studies.results import StudyResults
from fedveil.studies.rows import Row

KEPT = 0.9
"""A defence counts as useful if it keeps this share of what the undefended release adds to guessing the task."""

_UNDEFENDED = ("undefended", "fedavg", "raw")
"""Kinds of game that defend nothing."""


@dataclass(frozen=True, eq=False)
class Pair:
    """A study's figures for one task and one attribute.

    Attributes:
        rows: the rows of the cells that have figures for both.
        frontier: the frontier of the same cells; None if there are none.
        lacking: for each other finished cell, by its id, what it lacks.
        undefended: the point without a defence: a method named none, else plain training, else all columns released
            raw; None if there is none.
    """

    task: str
    attribute: str
    rows: list[Row]
    frontier: Frontier | None
    lacking: dict[str, str]
    undefended: Point | None = None

    @property
    def defences(self) -> list[Point]:
        """The points of methods that defend, other than dropping columns."""
        free = None if self.undefended is None else self.undefended.method
        points = () if self.frontier is None else self.frontier.points
        return [point for point in points if point.method != free and not point.method.startswith("drop-columns")]

    @property
    def recommended(self) -> Point | None:
        """The defence that leaks least on validation among those that stay useful on validation; None if none does."""
        if self.frontier is None or self.undefended is None:
            return None
        guessing = self.frontier.utility_prior
        needed = guessing + KEPT * (self.undefended.validation_utility - guessing)
        useful = [
            point
            for point in self.defences
            if point.validation_utility >= needed and math.isfinite(point.validation_leakage)
        ]
        return min(useful, key=lambda point: (point.validation_leakage, -point.validation_utility), default=None)


def pair_of(results: StudyResults, task: str, attribute: str) -> Pair:
    """Return a study's figures for one task and one attribute."""
    lacking = {cell.id: why for cell in results.cells if (why := cell.result.lacks(task, attribute)) is not None}
    if len(lacking) == len(results.cells):
        return Pair(task, attribute, [], None, lacking)
    try:
        frontier = results.frontier(task, attribute)
    except InputError as fault:  # figures that make no frontier, such as a task in which all people have one label
        return Pair(task, attribute, [], None, {cell.id: str(fault) for cell in results.cells})
    undefended = _undefended(results, frontier)
    return Pair(task, attribute, results.rows_about(task, attribute), frontier, lacking, undefended)


def _undefended(results: StudyResults, frontier: Frontier) -> Point | None:
    plain = [
        method.name
        for method in results.facts.methods
        if method.game in _UNDEFENDED and not method.shielded and not method.swept
    ]
    for name in ["none", *plain]:
        for point in frontier.points:
            if point.method == name:
                return point
    return next((p for p in frontier.points if p.method == frontier.baseline and p.strength == 0), None)
