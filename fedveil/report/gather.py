"""Gather: a study's results as the plain values that a page shows; nothing planned is left out.

A *setting* is a method at one strength; its figures are means over the seeds' cells. What was planned and is missing
stays in the list, with the reason. Lists inside run parallel to `settings`, `tasks` or `attributes`; an estimate is
[estimate, low, high], and null is "missing".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedveil.report.contradictions import contradictions
from fedveil.report.figures import Figure, figure, inside, known_certificates, mean_figure, number
from fedveil.report.marks import marks
from fedveil.report.settings import Setting, bound_on_balanced_accuracy, settings_of
from fedveil.report.sound import LACKS, Pair
from fedveil.report.theory import theory
from fedveil.studies.notes import epsilon_in_words
from fedveil.studies.results import CellResult, StudyResults
from fedveil.studies.rows import CHANCES, spent_of

BESIDE: dict[str, tuple[str | None, ...]] = {
    "decensoring": ("decensoring", None, "attack"),
    "decensoring-control": ("decensoring", None, "control"),
    "cotrained": ("cotrained", None),
}
"""Attackers who are no members of the panel, and where a result has them; None stands for the attribute."""


def gather(results: StudyResults, pairs: Sequence[Sequence[Pair]], attributes: Sequence[str]) -> dict[str, Any]:
    """Return everything about a study but its maps, losses and words; `pairs` by task, then by attribute."""
    settings = settings_of(results)
    methods = list(dict.fromkeys(setting.method for setting in settings))
    given, damaged = marks(methods), dict(results.damaged)
    return {
        "name": results.name,
        "complete": results.complete,
        "planned": len(results.planned),
        "finished": len(results.cells),
        "tasks": [row[0].task for row in pairs if row],
        "attributes": list(attributes),
        "methods": [{"name": name, **given[name]._asdict()} for name in methods],
        "settings": [
            {
                "method": methods.index(setting.method),
                "strength": setting.strength,
                "label": setting.label,
                "spent": _spent(setting),
                "cells": [_cell_state(cell, setting, damaged) for cell in setting.planned],
            }
            for setting in settings
        ],
        "views": [[_view(settings, pair) for pair in row] for row in pairs],
        "attackers": [[_attackers(setting, name) for setting in settings] for name in attributes],
        "groups": [[_groups(settings, pair.task, pair.attribute) for pair in row] for row in pairs],
        "certificates": [[_certificates(setting, name) for setting in settings] for name in attributes],
        "theory": [[theory(settings, pair.task, pair.attribute) for pair in row] for row in pairs],
        "contradictions": [
            [[list(one) for one in contradictions(setting, name)] for setting in settings] for name in attributes
        ],
        "run": _run(results),
    }


def _spent(setting: Setting) -> str | None:
    """Say what noise on updates has spent, or None where there is none."""
    try:
        found = spent_of([cell.result for cell in setting.cells]) if setting.cells else None
        return None if found is None else epsilon_in_words(found)
    except LACKS:
        return None


def _cell_state(cell: dict[str, Any], setting: Setting, damaged: Mapping[str, str]) -> dict[str, Any]:
    state = {"id": cell["id"], "seed": cell["seed"], "state": "finished"}
    if cell["id"] in damaged:
        return state | {"state": "damaged", "why": str(damaged[cell["id"]])}
    if not any(done.id == cell["id"] for done in setting.cells):
        return state | {"state": "not finished"}
    return state


def _view(settings: list[Setting], pair: Pair) -> dict[str, Any]:
    """One task beside one attribute: every setting's point, the front, and the lines to read them by."""
    place = {(setting.method, setting.strength): index for index, setting in enumerate(settings)}
    rows = {(row["method"], row["strength"], row["attacker"]): row for row in pair.rows}
    view: dict[str, Any] = {
        "points": [None] * len(settings),
        "cotrained": [_cotrained(rows.get((s.method, s.strength, "cotrained"))) for s in settings],
        "missing": [_why_missing(setting, pair) for setting in settings],
        "bounds": [bound_on_balanced_accuracy(setting, pair.attribute) for setting in settings],
        "front": [],
        "baseline": None,
    }
    if pair.frontier is None:
        return view
    for point in pair.frontier.points:
        index, row = place[point.method, point.strength], rows[point.method, point.strength, "retrained"]
        view["points"][index] = {
            "utility": figure(point.utility.as_dict()),
            "leakage": figure(point.leakage.as_dict()),
            "attacker": str(row["attacker_name"]),
            "bits": figure(row["leakage"]["mutual_information_bits"]),
            "each": [_each(cell, pair) for cell in settings[index].cells if cell.id not in pair.lacking],
        }
    points = pair.frontier.points
    return view | {
        "front": [place[points[i].method, points[i].strength] for i in pair.frontier.front],
        "chance": number(pair.frontier.chance),
        "prior": number(pair.frontier.prior),
        "utility_prior": number(pair.frontier.utility_prior),
        "floor": None if pair.frontier.floor is None else figure(pair.frontier.floor.as_dict()),
        "baseline": pair.frontier.baseline,
    }


def stairs(view: Mapping[str, Any]) -> tuple[list[float], list[float]]:
    """Return the front's leakages and utilities; what the test shows to be dominated falls behind the stairs."""
    kept: list[tuple[float, float]] = []
    for point in (view["points"][i] for i in view["front"]):
        if not kept or point["utility"][0] > kept[-1][1]:
            kept.append((point["leakage"][0], point["utility"][0]))
    return [x for x, _ in kept], [y for _, y in kept]


def _cotrained(row: Mapping[str, Any] | None) -> Figure | None:
    return figure(inside(row, "leakage", "balanced_accuracy"))


def _each(cell: CellResult, pair: Pair) -> list[float | None]:
    """One cell's own point: its seed, leakage and utility."""
    leakage = inside(cell.result, "leakage", pair.attribute, "worst", "balanced_accuracy", "estimate")
    utility = inside(cell.result, "utility", pair.task, "accuracy", "estimate")
    return [cell.seed, number(leakage), number(utility)]


def _why_missing(setting: Setting, pair: Pair) -> str | None:
    """Say which of a setting's planned cells are not in its figures, or None where all are."""
    reasons = []
    if len(setting.cells) < len(setting.planned):
        reasons.append(f"{len(setting.planned) - len(setting.cells)} of {len(setting.planned)} cells not finished")
    reasons += [f"seed {c.seed}: {pair.lacking[c.id]}" for c in setting.cells if c.id in pair.lacking]
    return "; ".join(reasons) or None


def _attackers(setting: Setting, attribute: str) -> list[dict[str, Any]]:
    """Every attacker's figures, means over seeds, strongest first; those who are no members of the panel last."""
    found: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    chosen: dict[str, int] = {}
    for cell in setting.cells:
        tried = inside(cell.result, "leakage", attribute, "attackers")
        for attacker in tried if isinstance(tried, list) else []:
            if inside(attacker, "name"):
                found.setdefault((str(attacker["name"]), "retrained"), []).append(attacker)
        worst = inside(cell.result, "leakage", attribute, "worst", "name")
        if worst is not None:
            chosen[str(worst)] = chosen.get(str(worst), 0) + 1
        for kind, path in BESIDE.items():
            one = inside(cell.result, *(attribute if step is None else step for step in path))
            if isinstance(one, Mapping) and one:
                found.setdefault((str(one.get("name", kind)), kind), []).append(one)
    listed = [
        {
            "name": name,
            "kind": kind,
            "chosen": chosen.get(name, 0) if kind == "retrained" else 0,
            "balanced_accuracy": mean_figure((one.get("balanced_accuracy") for one in each), CHANCES),
            "auc": mean_figure((one.get("auc") for one in each), CHANCES),
            "bits": mean_figure(one.get("mutual_information_bits") for one in each),
        }
        for (name, kind), each in found.items()
    ]
    kinds = ["retrained", *BESIDE]
    return sorted(listed, key=lambda one: (kinds.index(one["kind"]), -(one["balanced_accuracy"] or [0.0])[0]))


def _groups(settings: list[Setting], task: str, attribute: str) -> dict[str, Any]:
    """Utility by the attribute's values: the values' names, and for each setting a figure for each."""
    each = [
        [inside(cell.result, "utility", task, "by_group", attribute) or {} for cell in setting.cells]
        for setting in settings
    ]
    values = list(dict.fromkeys(str(value) for setting in each for groups in setting for value in groups))
    by_setting = [
        [mean_figure((groups.get(value) for groups in setting), CHANCES) for value in values] if setting else None
        for setting in each
    ]
    return {"values": values, "settings": by_setting}


def _certificates(setting: Setting, attribute: str) -> list[dict[str, Any]]:
    """What is proved about a setting: of each quantity that every finished cell bounds, the loosest bound over them."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for cell in setting.cells:
        tightest: dict[tuple[str, str], dict[str, Any]] = {}
        for one in known_certificates(cell.result, attribute):
            key = (str(one["quantity"]), str(one["direction"]))
            if key not in tightest or _looseness(one) < _looseness(tightest[key]):
                tightest[key] = dict(one)
        for key, best in tightest.items():
            found.setdefault(key, []).append(best)
    return [max(each, key=_looseness) for each in found.values() if len(each) == len(setting.cells)]


def _looseness(certificate: Mapping[str, Any]) -> float:
    return float(certificate["bound"]) * (1 if certificate["direction"] == "upper" else -1)


def _run(results: StudyResults) -> dict[str, Any]:
    configs = [cell.config for cell in results.cells]
    return {
        "command": str(results.facts.get("command") or ""),
        "version": str(results.facts.get("version") or ""),
        "revision": str(results.facts.get("revision") or ""),
        "versions": dict(inside(configs[0], "versions") or {}) if configs else {},
        "threads": sorted({config["threads"] for config in configs if isinstance(config.get("threads"), int)}),
        "seeds": sorted({cell["seed"] for cell in results.planned}),
        "study": results.study,
    }
