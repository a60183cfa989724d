"""Results as one tidy table: a line per cell, task, attribute and attacker; CSV and Parquet."""

from __future__ import annotations

import io
import math
from typing import Any

import pandas as pd

from fedveil.core.files import write_atomically
from fedveil.studies.results import CellResult, StudyResults
from fedveil.studies.rows import DECENSORING, LEAKAGE, spent_of

ENDS = ("estimate", "low", "high")


def tidy(results: StudyResults) -> pd.DataFrame:
    """Return all finished cells' figures as one table; every attacker of the panel has its line."""
    return pd.DataFrame([line for cell in results.cells for line in _lines(results.name, cell)])


def write_tables(results: StudyResults) -> None:
    """Write results.csv and results.parquet into the study's directory."""
    table = tidy(results)
    write_atomically(results.folder / "results.csv", table.to_csv(index=False))
    content = io.BytesIO()
    table.to_parquet(content, index=False)
    write_atomically(results.folder / "results.parquet", content.getvalue())


def _lines(study: str, cell: CellResult) -> list[dict[str, Any]]:
    start = {"study": study, "cell": cell.id, "method": cell.method, "strength": cell.strength, "seed": cell.seed}
    spent = spent_of([cell.result]) or {"epsilon": math.nan, "delta": math.nan}
    updates = {  # ε is infinite where nothing was clipped, and empty where there is no noise on updates
        "update_epsilon": math.inf if spent["epsilon"] is None else spent["epsilon"],
        "update_delta": spent["delta"],
    }
    lines = []
    for task, served in cell.result["utility"].items():
        utility = {
            "head": served["head"],
            **_spread("utility_accuracy", served["accuracy"]),
            **_spread("utility_balanced_accuracy", served["balanced_accuracy"]),
            "utility_prior": served["prior"],
            "utility_validation_accuracy": served["validation_accuracy"],
        }
        for attribute, judged in cell.result["leakage"].items():
            attackers = [("retrained", one) for one in judged["attackers"]]
            if attribute in cell.result["cotrained"]:
                attackers.append(("cotrained", cell.result["cotrained"][attribute]))
            undone = cell.result.get("decensoring", {}).get(attribute)
            attackers += [(kind, undone[part]) for kind, part in DECENSORING.items() if undone]
            for kind, one in attackers:
                lines.append(
                    {
                        **start,
                        "task": task,
                        "attribute": attribute,
                        "attacker": kind,
                        "attacker_name": one["name"].partition(" (")[0] if kind == "cotrained" else one["name"],
                        "chosen_on_validation": kind == "retrained" and one["name"] == judged["worst"]["name"],
                        **utility,
                        **{
                            key: value
                            for name in LEAKAGE
                            for key, value in _spread(f"leakage_{name}", one[name]).items()
                        },
                        "leakage_validation_balanced_accuracy": one["validation_balanced_accuracy"],
                        "attribute_prior": judged["prior"]["estimate"],
                        **updates,
                        "utility_only_devices": cell.result.get("utility_only", {}).get(attribute, math.nan),
                    }
                )
    return lines


def _spread(name: str, figure: dict[str, float]) -> dict[str, float]:
    return {f"{name}_{end}" if end != "estimate" else name: figure[end] for end in ENDS}
