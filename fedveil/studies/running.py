"""Run a study from start to finish, or continue it where it stopped."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fedveil.config.cells import Cell
from fedveil.config.study import Method, Study
from fedveil.core.files import plain, write_atomically
from fedveil.studies.check import Plan
from fedveil.studies.results import StudyResults, open_study
from fedveil.studies.runner import Listener, run_units
from fedveil.studies.store import Store
from fedveil.studies.tidy import write_tables
from fedveil.studies.units import Unit


@dataclass(frozen=True)
class Ran:
    """The results of a run, and the cells that could not be computed, each with the reason."""

    results: StudyResults
    failed: dict[str, str]


def run_study(
    plan: Plan,
    folder: Path,
    *,
    workers: int | None = 1,
    fresh: bool = False,
    command: str = "",
    listener: Listener | None = None,
    cells: Sequence[Cell] | None = None,
) -> Ran:
    """Compute what is not finished yet, then write results.json, results.csv and results.parquet.

    Args:
        plan: a checked study.
        folder: its directory; refused if it holds anything but this study.
        workers: how many processes compute at the same time; 0: this process computes all cells; None: one process per
            core. Results do not depend on it.
        fresh: discard the directory's results first.
        command: what a person types to repeat this.
        listener: called as cells are computed.
        cells: the cells to compute instead of all that are planned (a search for a strength adds cells).
    """
    listener = listener or Listener()
    store = Store(folder)
    with store.writing(lambda: store.check(plan), listener.warned, fresh=fresh):
        wanted = list(plan.cells if cells is None else cells)
        if cells is None or not store.begun:
            store.open(plan, command)
        units = [
            cell_unit(plan.study, plan.method(cell.method), cell, store.cell(cell))
            for cell in wanted
            if store.result(cell) is None
        ]
        outcome = run_units(units, folder, workers=workers, threads=plan.study.threads, listener=listener)
        results = open_study(folder)
        if cells is None:
            write_atomically(folder / "results.json", json.dumps(plain(results.as_dict())))
            write_tables(results)
        return Ran(results, outcome.failed)


def cell_unit(study: Study, method: Method, cell: Cell, folder: Path) -> Unit:
    """Return a cell as a unit of work, which leaves its result in the cell's directory."""
    strength = "" if cell.strength is None else f" {cell.strength:g}"
    payload = {
        "study": study.model_dump(mode="json"),
        "method": method.model_dump(mode="json"),
        "cell": cell.as_dict(),
        "folder": str(folder),
    }
    return Unit(cell.id, "fedveil.studies.cell_run:compute_cell", payload, f"{cell.method}{strength}, seed {cell.seed}")
