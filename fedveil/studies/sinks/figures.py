"""What every sink is told about a cell, by plain names: settings, figures by round, figures at the end."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

from fedveil.studies.results import CellResult

UTILITY = ("accuracy", "balanced_accuracy")
LEAKAGE = ("balanced_accuracy", "accuracy", "auc", "advantage", "mutual_information_bits")


def settings(cell: CellResult) -> dict[str, Any]:
    """Return what a cell was made of: method, strength and seed, then every setting by its dotted path."""
    study = cell.config.get("study") or {}
    found = {"method": cell.method, "strength": cell.strength, "seed": cell.seed}
    for part in ("method", "shared"):
        found.update(_flat(study.get(part) or {}, f"{part}."))
    return {name: value for name, value in found.items() if value is not None}


def by_round(cell: CellResult) -> Iterator[tuple[str, float, int]]:
    """Yield (name, value, step): losses by move, the validation loss, bytes sent; steps count all rounds from 1."""
    several = len({record.get("stage") for record in cell.metrics}) > 1
    for step, record in enumerate(cell.metrics, start=1):
        prefix = f"{_step(record['stage'])}/" if several else ""
        told = {f"loss/{prefix}{_step(move)}": value for move, value in (record.get("losses") or {}).items()}
        told[f"validation/{prefix}loss"] = record.get("validation")
        told["bytes_up"] = record.get("bytes_up")
        yield from ((name, float(value), step) for name, value in told.items() if _finite(value))


def at_the_end(cell: CellResult) -> dict[str, float]:
    """Return the final figures: utility by task, leakage by attribute, each with its interval's ends."""
    found: dict[str, Any] = {}
    for task, served in cell.result["utility"].items():
        for name in UTILITY:
            found.update(_spread(f"utility/{_step(task)}/{name}", served.get(name)))
        found[f"utility/{_step(task)}/validation_accuracy"] = served.get("validation_accuracy")
    attackers = {
        "leakage": {name: judged["worst"] for name, judged in cell.result["leakage"].items()},
        "cotrained": cell.result.get("cotrained") or {},
    }
    for kind, by_attribute in attackers.items():
        for attribute, figures in by_attribute.items():
            for name in LEAKAGE:
                found.update(_spread(f"{kind}/{_step(attribute)}/{name}", figures.get(name)))
            found[f"{kind}/{_step(attribute)}/validation_balanced_accuracy"] = figures.get(
                "validation_balanced_accuracy"
            )
    return {name: float(value) for name, value in found.items() if _finite(value)}


def _step(name: str) -> str:
    """Return a name that is one step of a path."""
    return re.sub(r"[/\\]|^\.+$", "_", name)


def _spread(name: str, figure: Any) -> dict[str, Any]:
    if not isinstance(figure, dict):
        return {}
    return {name: figure.get("estimate"), f"{name}_low": figure.get("low"), f"{name}_high": figure.get("high")}


def _finite(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _flat(values: dict[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
