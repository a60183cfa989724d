"""What a page shows of training and of people: losses by round, and maps of a few settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedveil.report.figures import inside
from fedveil.report.settings import Setting
from fedveil.report.tsne import CELLS, PEOPLE, tsne_map
from fedveil.studies.results import StudyResults

LOSS_VALUES = 25_000
"""At most about so many values of losses stand in a page; longer curves are thinned evenly, their ends kept."""


def losses(settings: Sequence[Setting], values: int = LOSS_VALUES) -> list[list[dict[str, Any]]]:
    """Return each setting's curves by seed, {"name", "x": rounds, "y": losses}; rounds count through all stages."""
    found: list[list[dict[str, Any]]] = [
        [{"seed": cell.seed, "curves": _curves(cell.metrics)} for cell in one.cells] for one in settings
    ]
    curves = [curve for setting in found for run in setting for curve in run["curves"]]
    most = max(8, min(200, values // max(1, len(curves))))
    for curve in curves:
        kept = np.unique(np.linspace(0, len(curve["x"]) - 1, min(most, len(curve["x"]))).round().astype(int))
        curve["x"], curve["y"] = [curve["x"][k] for k in kept], [curve["y"][k] for k in kept]
    return found


def _curves(metrics: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    curves: dict[str, dict[str, Any]] = {}
    stages = list(dict.fromkeys(str(record.get("stage")) for record in metrics if isinstance(record, Mapping)))
    for round_, record in enumerate(metrics, start=1):
        if not isinstance(record, Mapping):
            continue
        before = f"{record.get('stage')}: " if len(stages) > 1 else ""
        told = record.get("losses")
        values = dict(told) if isinstance(told, Mapping) else {}
        values |= {} if record.get("validation") is None else {"validation": record["validation"]}
        for name, value in values.items():
            curve = curves.setdefault(f"{before}{name}", {"name": f"{before}{name}", "x": [], "y": []})
            known = isinstance(value, int | float) and np.isfinite(value)
            curve["x"].append(round_)
            curve["y"].append(float(f"{value:.4g}") if known else None)
    return list(curves.values())


def maps(
    results: StudyResults, settings: Sequence[Setting], wanted: Sequence[int], names: Sequence[str]
) -> dict[str, Any]:
    """Return maps of at most twelve of the wanted settings' first cells, and of the same people's raw inputs."""
    cache = results.folder / ".report-cache"
    released: list[dict[str, Any] | None] = [None] * len(settings)
    raw: dict[str, dict[str, Any]] = {}
    first = next((cell.seed for setting in settings for cell in setting.cells), None)
    seeds = [] if first is None else [first]
    for index in list(dict.fromkeys(wanted))[:CELLS]:
        cell = next(iter(settings[index].cells), None)
        places = None if cell is None else tsne_map(cell.sample.get("released", np.empty(0)), cache)
        if cell is not None and places is not None:
            codes = [_codes(cell.sample, name) for name in names]
            released[index] = {"seed": cell.seed, "places": places, "codes": codes}
            seeds.append(cell.seed)
    for seed in dict.fromkeys(seeds):
        made = _raw(results, seed, names, cache)
        if made is not None:
            raw[str(seed)] = made
    for one in released:
        if one is not None and str(one["seed"]) in raw:
            del one["codes"]  # the same people: their codes stand beside their inputs
    return {"released": released, "raw": raw, "first": first, "values": [_values(results, name) for name in names]}


def _raw(results: StudyResults, seed: int, names: Sequence[str], cache: Path) -> dict[str, Any] | None:
    inputs = results.inputs(seed) or {}
    places = tsne_map(inputs.get("x", np.empty(0)), cache)
    return None if places is None else {"places": places, "codes": [_codes(inputs, name) for name in names]}


def _codes(arrays: Mapping[str, Any], name: str) -> list[int]:
    return [int(code) for code in np.asarray(arrays.get(f"code/{name}", np.empty(0, np.int64)))[:PEOPLE]]


def _values(results: StudyResults, attribute: str) -> list[str]:
    for cell in results.cells:
        classes = inside(cell.result, "leakage", attribute, "classes")
        if classes:
            return [str(value) for value in classes]
    return []
