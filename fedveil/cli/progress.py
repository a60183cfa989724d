"""How running units are shown: a bar with the time left on a terminal, a few lines anywhere else."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from fedveil.studies.runner import Listener
from fedveil.studies.units import Unit

LINES = 8
"""About how many lines report the progress if no bar can be drawn."""


class _Clock:
    """Estimates the time left from the share of the work that is done."""

    def __init__(self, total: int, noun: str) -> None:
        self.total, self.noun, self.started = total, noun, time.monotonic()
        self.shares: dict[str, float] = {}

    @property
    def finished(self) -> int:
        return sum(share >= 1 for share in self.shares.values())

    @property
    def done(self) -> float:
        return sum(self.shares.values())

    def count(self) -> str:
        return f"{self.finished} of {self.total} {self.noun}"

    def left(self) -> str:
        done, passed = self.done, time.monotonic() - self.started
        if done <= 0 or passed < 2:
            return "estimating time left"
        return f"about {duration(passed * (self.total - done) / done)} left"


@contextmanager
def shown_progress(console: Console, total: int, noun: str = "cells") -> Iterator[Listener]:
    """Yield a listener that shows the progress of `total` units, called `noun`."""
    clock = _Clock(total, noun)
    if not console.is_terminal:
        yield _lines(console, clock)
        return
    columns = (BarColumn(), TextColumn("{task.fields[count]}"), TextColumn("[dim]{task.fields[what]}[/dim]"))
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=total, count=f"{clock.count()}, {clock.left()}", what="")

        def update(unit: Unit, share: float, **fields: Any) -> None:
            clock.shares[unit.key] = share
            bar.update(task, completed=clock.done, count=f"{clock.count()}, {clock.left()}", **fields)

        def progress(unit: Unit, share: float, what: str) -> None:
            update(unit, min(share, 0.99), what=f"{unit}: {what}".replace("[", "("))

        def finished(unit: Unit) -> None:
            update(unit, 1.0)

        yield Listener(progress, finished, lambda text: bar.console.print(f"warning: {text}", markup=False))


def _lines(console: Console, clock: _Clock) -> Listener:
    every = max(1, clock.total // LINES)

    def progress(unit: Unit, share: float, what: str) -> None:
        clock.shares[unit.key] = min(share, 0.99)

    def finished(unit: Unit) -> None:
        clock.shares[unit.key] = 1.0
        if clock.finished % every == 0 or clock.finished == clock.total:
            rest = "" if clock.finished == clock.total else f", {clock.left()}"
            console.print(f"{clock.count()}{rest}", markup=False)

    return Listener(progress, finished, lambda text: console.print(f"warning: {text}", markup=False))


def duration(seconds: float) -> str:
    """Return a length of time in the unit that people would choose.

    >>> duration(42), duration(150), duration(8000)
    ('42 s', '2.5 min', '2.2 h')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
