"""Results as one tidy table, in CSV and Parquet: a line per cell, task, attribute and attacker."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator

import pandas as pd

from fedveil.attacks.judgement import AttackerFigures
from fedveil.core.files import write_atomically
from fedveil.studies.model import CellFigures
from fedveil.studies.results import CellResult, StudyResults
from fedveil.studies.rows import MEASURES, most_spent

Line = dict[str, str | float | bool | None]


def tidy(results: StudyResults) -> pd.DataFrame:
    """Return the figures of all finished cells as one table; every attacker of the panel has a line of its own."""
    return pd.DataFrame([line for cell in results.cells for line in _lines(results.name, cell)])


def write_tables(results: StudyResults) -> None:
    """Write results.csv and results.parquet into the study's directory."""
    table = tidy(results)
    write_atomically(results.folder / "results.csv", table.to_csv(index=False))
    content = io.BytesIO()
    table.to_parquet(content, index=False)
    write_atomically(results.folder / "results.parquet", content.getvalue())


def _lines(study: str, cell: CellResult) -> Iterator[Line]:
    for task, served in cell.result.utility.items():
        for attribute, judged in cell.result.leakage.items():
            for kind, attacker in _attackers(cell.result, attribute):
                yield {
                    "study": study,
                    "cell": cell.id,
                    "method": cell.method,
                    "strength": cell.strength,
                    "seed": cell.seed,
                    "task": task,
                    "attribute": attribute,
                    "attacker": kind,
                    "attacker_name": attacker.name.partition(" (")[0] if kind == "cotrained" else attacker.name,
                    "strongest": kind == "retrained" and attacker.name == judged.worst.name,
                    "chosen_on_validation": kind == "retrained" and attacker.name == judged.chosen_name,
                    "head": served.head,
                    **served.accuracy.columns("utility_accuracy"),
                    **served.balanced_accuracy.columns("utility_balanced_accuracy"),
                    "utility_prior": served.prior,
                    "utility_validation_accuracy": served.validation_accuracy,
                    **_leakage(attacker),
                    "leakage_validation_balanced_accuracy": attacker.validation_balanced_accuracy,
                    "attribute_prior": judged.prior.estimate,
                    **_spent(cell.result),
                    "utility_only_devices": cell.result.utility_only.get(attribute, math.nan),
                }


def _attackers(result: CellFigures, attribute: str) -> list[tuple[str, AttackerFigures]]:
    """Return every attacker with its kind: the panel's, then those beside it."""
    panel = [("retrained", attacker) for attacker in result.leakage[attribute].attackers]
    return [*panel, *result.beside_panel(attribute).items()]


def _leakage(attacker: AttackerFigures) -> Line:
    return {
        key: value for name in MEASURES for key, value in getattr(attacker, name).columns(f"leakage_{name}").items()
    }


def _spent(result: CellFigures) -> Line:
    """Return the ε and δ of noise on updates: infinite if nothing was clipped, NaN if there is no noise."""
    spent = most_spent([result.spent])
    if spent is None:
        return {"update_epsilon": math.nan, "update_delta": math.nan}
    return {"update_epsilon": spent.epsilon, "update_delta": spent.delta}
