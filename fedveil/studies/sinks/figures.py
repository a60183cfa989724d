"""What every sink writes about a cell, under plain names: settings, figures by round, figures at the end."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping

from fedveil.studies.results import CellResult
from fedveil.studies.rows import MEASURES


def settings(cell: CellResult) -> dict[str, object]:
    """Return a cell's method, strength and seed, then every setting by its dotted path."""
    values: dict[str, object] = {"method": cell.method, "strength": cell.strength, "seed": cell.seed}
    for part in ("method", "shared"):
        values.update(_flat(cell.config.settings.get(part, {}), f"{part}."))
    return {name: value for name, value in values.items() if value is not None}


def by_round(cell: CellResult) -> Iterator[tuple[str, float, int]]:
    """Yield (name, value, step): losses by move, the validation loss, bytes sent; steps count all rounds from 1."""
    several = len({record.stage for record in cell.metrics}) > 1
    for step, record in enumerate(cell.metrics, start=1):
        prefix = f"{_step(record.stage)}/" if several else ""
        values = {f"loss/{prefix}{_step(move)}": loss for move, loss in record.losses.items()}
        if record.validation is not None:
            values[f"validation/{prefix}loss"] = record.validation
        values["bytes_up"] = float(record.bytes_up)
        yield from ((name, value, step) for name, value in values.items() if math.isfinite(value))


def at_the_end(cell: CellResult) -> dict[str, float]:
    """Return the final figures: utility by task, leakage by attribute, each with the ends of its interval."""
    values: dict[str, float] = {}
    for task, served in cell.result.utility.items():
        path = f"utility/{_step(task)}"
        values |= served.accuracy.columns(f"{path}/accuracy")
        values |= served.balanced_accuracy.columns(f"{path}/balanced_accuracy")
        values[f"{path}/validation_accuracy"] = served.validation_accuracy
    strongest = {attribute: cell.result.strongest(attribute) for attribute in cell.result.leakage}
    for kind, by_attribute in (("leakage", strongest), ("cotrained", cell.result.cotrained)):
        for attribute, attacker in by_attribute.items():
            path = f"{kind}/{_step(attribute)}"
            for measure in MEASURES:
                values |= getattr(attacker, measure).columns(f"{path}/{measure}")
            values[f"{path}/validation_balanced_accuracy"] = attacker.validation_balanced_accuracy
    return {name: value for name, value in values.items() if math.isfinite(value)}


def _step(name: str) -> str:
    """Return a name that is one step of a path."""
    return re.sub(r"[/\\]|^\.+$", "_", name)


def _flat(values: Mapping[str, object], prefix: str) -> Iterator[tuple[str, object]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
