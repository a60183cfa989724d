"""`fedveil run --dry-run`: the cells, and the time and disk space that they will take."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fedveil.cli.output import print_json
from fedveil.cli.progress import duration
from fedveil.studies.check import Plan
from fedveil.studies.estimate import START_SECONDS, estimate
from fedveil.studies.runner import worker_count
from fedveil.studies.store import Store


def show_dry_run(plan: Plan, folder: Path, workers: int | None, console: Console, as_json: bool) -> None:
    """Show the cells with estimated time and disk space; refuse a directory of another study, as a real run does."""
    processes = max(1, worker_count(workers))
    store = Store(folder)
    store.check_place()
    warnings = store.check(plan)
    costs = estimate(plan, store)
    done = {cell.id for cell in plan.cells if store.result(cell) is not None}
    table = Table("method", "strengths", "cells", "finished", "time each", "disk each")
    for method in plan.methods:
        cells = [cell for cell in plan.cells if cell.method == method.name]
        cost = costs[method.name]
        strengths = ", ".join(f"{strength:g}" for strength in method.strengths or []) or "–"
        finished = sum(cell.id in done for cell in cells)
        each = ("" if cost.measured else "about ") + duration(cost.seconds)
        table.add_row(Text(method.name), strengths, str(len(cells)), str(finished), each, _size(cost.bytes))
    console.print(table)
    left = [cell for cell in plan.cells if cell.id not in done]
    work = sum(costs[cell.method].seconds for cell in left)
    seconds = work / min(processes, max(1, len(left))) + (START_SECONDS if left else 0)
    disk = sum(costs[cell.method].bytes for cell in left)
    scratch = sum(sorted((costs[cell.method].scratch for cell in left), reverse=True)[:processes])
    console.print(
        f"{len(plan.cells)} cells, {len(done)} finished; about {duration(seconds)} with {processes} workers, and "
        f"{_size(disk)} of disk in {folder} ({_size(disk + scratch)} at most). Estimates; nothing was written.",
        markup=False,
    )
    for warning in warnings[:3]:
        console.print(f"warning: {warning}", markup=False)
    if as_json:
        planned = [{**cell.as_dict(), "finished": cell.id in done} for cell in plan.cells]
        print_json(
            {
                "study": plan.study.name,
                "cells": planned,
                "finished": len(done),
                "estimated_seconds": seconds,
                "estimated_bytes": disk,
                "workers": processes,
            }
        )


def _size(count: int) -> str:
    for unit in ("bytes", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}"
        count = round(count / 1000)
    return f"{count} GB"
