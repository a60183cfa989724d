"""A study run from start to finish, or from where it stopped."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fedveil.config.cells import Cell
from fedveil.core.errors import InputError
from fedveil.core.files import plain, write_atomically
from fedveil.studies.check import Plan
from fedveil.studies.results import StudyResults, open_study
from fedveil.studies.runner import Job, Listener, run_jobs
from fedveil.studies.store import Store
from fedveil.studies.tidy import write_tables


@dataclass(frozen=True)
class Ran:
    """What a run came to: the results, and the cells that could not be computed."""

    results: StudyResults
    failed: dict[str, str]


def run_study(
    plan: Plan,
    folder: Path,
    *,
    workers: int = 1,
    fresh: bool = False,
    command: str = "",
    listener: Listener | None = None,
    cells: Sequence[Cell] | None = None,
) -> Ran:
    """Compute what is not finished yet, then write results.json, results.csv and results.parquet.

    Args:
        plan: a checked study.
        folder: its directory; refused where it holds anything but this study.
        workers: processes at work at the same time; results do not depend on it.
        fresh: discard what is there first.
        command: what a person would type to repeat this.
        listener: who is told how it goes.
        cells: these in place of all (a search for a strength computes cells of its own).
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
            jobs = [Job(c, plan.method(c.method), store.cell(c)) for c in wanted if store.result(c) is None]
            outcome = run_jobs(plan.study, jobs, workers, listener)
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


def _shortened(warnings: list[str]) -> list[str]:
    """Say a thing at most three times."""
    more = len(warnings) - 3
    return warnings[:3] + ([f"… and {more} more cells of other code"] if more > 0 else [])
