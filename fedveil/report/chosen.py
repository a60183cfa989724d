"""Chosen: which settings the words speak of. Choices look at validation figures only."""

from __future__ import annotations

import math

from fedveil.report.figures import inside
from fedveil.report.sound import Pair
from fedveil.studies.frontier import Frontier, Point
from fedveil.studies.results import StudyResults

KEPT = 0.9
"""A defence counts as useful if it keeps so much of what the undefended release adds to guessing the task."""


def undefended_point(results: StudyResults, pair: Pair) -> Point | None:
    """Return the point without a defence: a method named none, else plain training, else all columns released raw."""
    frontier = pair.frontier
    if frontier is None:
        return None
    plain = [
        inside(method, "name")
        for method in results.study.get("methods") or []
        if inside(method, "game", "kind") in ("undefended", "fedavg", "raw")
        and not (inside(method, "shield") or inside(method, "policy") or inside(method, "strengths"))
    ]
    for name in ["none", *plain]:
        for point in frontier.points:
            if point.method == name:
                return point
    return next((p for p in frontier.points if p.method == frontier.baseline and p.strength == 0), None)


def recommended_point(results: StudyResults, pair: Pair) -> Point | None:
    """Return the least leaking defence that stays useful, by validation; None where there is none."""
    free = undefended_point(results, pair)
    return None if free is None or pair.frontier is None else least_leaking(pair.frontier, free)


def defences(frontier: Frontier, free: Point | None) -> list[Point]:
    """Return the points of methods that defend, other than dropping columns."""
    name = None if free is None else free.method
    return [p for p in frontier.points if p.method != name and not p.method.startswith("drop-columns")]


def least_leaking(frontier: Frontier, free: Point) -> Point | None:
    """Return the defence that leaks least on validation among those that stay useful on it, or None."""
    asked = frontier.utility_prior + KEPT * (free.validation_utility - frontier.utility_prior)
    useful = [
        p for p in defences(frontier, free) if p.validation_utility >= asked and math.isfinite(p.validation_leakage)
    ]
    return min(useful, key=lambda p: (p.validation_leakage, -p.validation_utility), default=None)
