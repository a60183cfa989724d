"""How a running study is shown: a bar with the time left on a terminal, a few lines anywhere else."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from fedveil.config.cells import Cell
from fedveil.studies.runner import Listener

LINES = 8


class _Clock:
    """Estimates the time left from the share of the work that is done."""

    def __init__(self, total: int) -> None:
        self.total, self.started = total, time.monotonic()
        self.shares: dict[str, float] = {}

    @property
    def finished(self) -> int:
        return sum(share >= 1 for share in self.shares.values())

    @property
    def done(self) -> float:
        return sum(self.shares.values())

    def told(self) -> str:
        return f"{self.finished} of {self.total} cells, {self.left()}"

    def left(self) -> str:
        done, passed = self.done, time.monotonic() - self.started
        if done <= 0 or passed < 2:
            return "estimating time left"
        return f"about {duration(passed * (self.total - done) / done)} left"


@contextmanager
def study_progress(console: Console, total: int) -> Iterator[Listener]:
    """Yield a listener that shows how `total` cells go."""
    clock = _Clock(total)
    if not console.is_terminal:
        yield _lines(console, clock)
        return
    columns = (BarColumn(), TextColumn("{task.fields[count]}"), TextColumn("[dim]{task.fields[what]}[/dim]"))
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=total, count=clock.told(), what="")

        def progress(cell: Cell, share: float, what: str) -> None:
            clock.shares[cell.id] = min(share, 0.99)
            bar.update(task, completed=clock.done, count=clock.told(), what=f"{_name(cell)}: {what}".replace("[", "("))

        def finished(cell: Cell) -> None:
            clock.shares[cell.id] = 1.0
            bar.update(task, completed=clock.done, count=clock.told())

        yield Listener(progress, finished, lambda text: bar.console.print(f"warning: {text}", markup=False))


def _lines(console: Console, clock: _Clock) -> Listener:
    every = max(1, clock.total // LINES)

    def progress(cell: Cell, share: float, what: str) -> None:
        clock.shares[cell.id] = min(share, 0.99)

    def finished(cell: Cell) -> None:
        clock.shares[cell.id] = 1.0
        if clock.finished % every == 0 or clock.finished == clock.total:
            rest = "" if clock.finished == clock.total else f", {clock.left()}"
            console.print(f"{clock.finished} of {clock.total} cells{rest}", markup=False)

    return Listener(progress, finished, lambda text: console.print(f"warning: {text}", markup=False))


def duration(seconds: float) -> str:
    """Return a length of time as a person says it.

    >>> duration(42), duration(150), duration(8000)
    ('42 s', '2.5 min', '2.2 h')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _name(cell: Cell) -> str:
    return f"{cell.method}{'' if cell.strength is None else f' {cell.strength:g}'}, seed {cell.seed}"
