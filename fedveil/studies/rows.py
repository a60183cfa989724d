"""Results as rows: one per method, strength, task, attribute and attacker, averaged over seeds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import t as student

from fedveil.core.figures import Estimate

if TYPE_CHECKING:
    from fedveil.studies.results import CellResult

DECENSORING = {"decensoring": "attack", "decensoring-control": "control"}
"""Rows of de-censoring and of its control, and where a result has them."""
LEAKAGE = ("balanced_accuracy", "accuracy", "auc", "advantage", "mutual_information_bits")


CHANCES = (0.0, 1.0)
"""What a share of people can be."""
RANGES = dict.fromkeys(("balanced_accuracy", "accuracy", "auc"), CHANCES)


def averaged(figures: Sequence[dict[str, float]], within: tuple[float, float] | None = None) -> Estimate:
    """Return the mean over seeds; the interval's ends stay within what the quantity can be.

    Its half-widths join the mean half-width within a seed (people differ; seeds may share their test people, so
    averaging does not shrink it) with t·s/√S over S seeds (training differs), as √(a² + b²).

    >>> averaged([{"estimate": 0.8, "low": 0.78, "high": 0.82}])
    Estimate(0.800 [0.780, 0.820] at 0.95)
    """
    points, lows, highs = (np.array([float(f[name]) for f in figures]) for name in ("estimate", "low", "high"))
    mean, between = float(points.mean()), 0.0
    if len(points) > 1:
        between = float(student.ppf(0.975, len(points) - 1) * points.std(ddof=1) / math.sqrt(len(points)))
    low, high = (float(np.hypot(np.mean(np.abs(ends - points)), between)) for ends in (lows, highs))
    lowest, highest = within or (-math.inf, math.inf)
    return Estimate(mean, min(mean, max(lowest, mean - low)), max(mean, min(highest, mean + high)))


def seed_factor(seeds: int) -> float:
    """Return by how much the mean of S ≥ 2 seeds drawn with replacement spreads too little.

    It has the variance s²(S − 1)/S², where t·s/√S is asked: a normal spread is stretched by t/1.96 · √(S/(S − 1)).
    """
    return float(student.ppf(0.975, seeds - 1) / 1.96 * math.sqrt(seeds / (seeds - 1)))


def by_point(cells: Iterable[CellResult]) -> dict[tuple[str, float | None], list[CellResult]]:
    """Return the cells of each method and strength, in the order in which they are planned."""
    found: dict[tuple[str, float | None], list[CellResult]] = {}
    for cell in cells:
        found.setdefault((cell.method, cell.strength), []).append(cell)
    return found


def rows_of(cells: Sequence[CellResult]) -> list[dict[str, Any]]:
    """Return all rows."""
    rows = []
    for (method, strength), same in by_point(cells).items():
        spent, idle = spent_of([cell.result for cell in same]), _utility_only([cell.result for cell in same])
        for task in same[0].result["utility"]:
            utility = _utility([cell.result["utility"][task] for cell in same])
            for attribute in same[0].result["leakage"]:
                judged = [cell.result["leakage"][attribute] for cell in same]
                start = {"method": method, "strength": strength, "task": task, "attribute": attribute}
                seeds = [cell.seed for cell in same]
                found_by: dict[str, list[dict[str, Any] | None]] = {"retrained": [one["worst"] for one in judged]}
                found_by["cotrained"] = [cell.result["cotrained"].get(attribute) for cell in same]
                undone = [cell.result.get("decensoring", {}).get(attribute, {}) for cell in same]
                found_by |= {name: [one.get(part) for one in undone] for name, part in DECENSORING.items()}
                for attacker, each in found_by.items():
                    found = [one for one in each if one is not None]
                    if len(found) < len(each):
                        continue
                    rows.append(
                        {
                            **start,
                            "attacker": attacker,
                            "attacker_name": _commonest([one["name"] for one in found]),
                            "seeds": seeds,
                            "utility": utility,
                            "leakage": _leakage(found, judged),
                            "paper": {},
                            "spent": spent,
                            "utility_only": idle,
                        }
                    )
                    if attacker == "decensoring":
                        rows[-1]["leakage"]["gain"] = averaged([one["gain"] for one in undone]).as_dict()
    return rows


def _utility(found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {
        **{
            name: averaged([one[name] for one in found], CHANCES).as_dict()
            for name in ("accuracy", "balanced_accuracy")
        },
        "prior": float(np.mean([one["prior"] for one in found])),
        "validation_accuracy": float(np.mean([one["validation_accuracy"] for one in found])),
        "head": _commonest([one["head"] for one in found]),
    }


def _leakage(found: Sequence[dict[str, Any]], judged: Sequence[dict[str, Any]]) -> dict[str, Any]:
    selected = [one["validation_balanced_accuracy"] for one in found]
    return {
        **{name: averaged([one[name] for one in found], RANGES.get(name)).as_dict() for name in LEAKAGE},
        "prior": averaged([one["prior"] for one in judged], CHANCES).as_dict(),
        "chance": 1 / len(judged[0]["classes"]),
        "validation_balanced_accuracy": None if None in selected else float(np.mean(selected)),
        "detectable_advantage": float(np.mean([one["detectable_advantage"] for one in judged])),
    }


def spent_of(results: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the ε that devices spent on updates, the most over seeds; null where it is infinite.

    Several shields on one update each bound it, so that the smallest holds.
    """
    tightest = []
    for result in results:
        found = [(math.inf if one["infinite"] else float(one["bound"]), one) for one in result.get("spent", [])]
        if not found:
            return None
        tightest.append(min(found, key=lambda pair: pair[0]))
    epsilon, said = max(tightest, key=lambda pair: pair[0])
    return {
        "epsilon": None if math.isinf(epsilon) else epsilon,
        "delta": said["assumptions"].get("delta"),
        "releases": said["assumptions"].get("releases"),
        "covers": said["covers"],
    }


def _utility_only(results: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return by hidden attribute how many devices have nothing to hide, the most over seeds, of how many."""
    names = dict.fromkeys(name for result in results for name in result.get("utility_only", {}))
    return {
        name: {
            "devices": max(int(result.get("utility_only", {}).get(name, 0)) for result in results),
            "of": max(int(result.get("devices", 0)) for result in results),
        }
        for name in names
    }


def _commonest(names: Sequence[str]) -> str:
    return max(dict.fromkeys(names), key=names.count)
