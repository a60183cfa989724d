"""Run a study from start to finish, or continue it where it stopped."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fedveil.config.cells import Cell
from fedveil.config.study import Method, Study
from fedveil.core.errors import InputError
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
    try:
        store.check_place()  # before anything is written, the lock included
        if not fresh:
            store.check(plan)
        with store.locked():
            if fresh:
                store.discard()
            for warning in _shortened(store.check(plan)):
                listener.warned(warning)
            wanted = list(plan.cells if cells is None else cells)
            if cells is None or store.known is None:
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
    except OSError as fault:
        raise InputError(
            f"{fault.filename or folder}: cannot be written ({fault.strerror or fault}); finished cells are kept: make "
            "room or name another directory with --out, and run the same command again"
        ) from fault


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


def _shortened(warnings: list[str]) -> list[str]:
    """Return the first three warnings, and how many others there are."""
    more = len(warnings) - 3
    return warnings[:3] + ([f"… and {more} more cells of other code"] if more > 0 else [])
