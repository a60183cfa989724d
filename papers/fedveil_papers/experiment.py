"""Experiments: what a preset runs where it is no study: its own measurements, kept part by part."""

from __future__ import annotations

import hashlib
import json
import os
import signal
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar

from threadpoolctl import threadpool_limits

import fedveil
from fedveil.core.files import plain, write_atomically
from fedveil.core.lifetime import end_with
from fedveil_papers.shown import Display, PaperFigures

if TYPE_CHECKING:
    from rich.table import Table

FORMAT = 1
"""To be raised when a change of ours makes the same settings come out otherwise: all is then measured anew."""

Say = Callable[[str], None]
"""Tell whoever waits what is done now."""

Measure = Callable[[], dict[str, Any]]
"""Measures a part."""


class Experiment(Display):
    """A measurement of its own. What `run` returns is plain JSON, and all that is laid out."""

    @abstractmethod
    def check(self) -> None:
        """Refuse settings that cannot be run, before anything is."""

    @abstractmethod
    def run(self, kept: Kept, say: Say, paper: PaperFigures) -> dict[str, Any]:
        """Measure what is not in the folder yet, and return all figures, the paper's beside them."""


class LaidOutExperiment(Experiment):
    """An experiment whose tables, notes and pictures are a module's: `tables`, `notes` and `draw` of what was found."""

    layout: ClassVar[ModuleType]

    def tables(self, found: dict[str, Any]) -> list[Table]:
        """Lay the figures out for the terminal."""
        made: list[Table] = self.layout.tables(found)
        return made

    def notes(self, found: dict[str, Any]) -> list[str]:
        """Say in words what the figures rest on, a line each."""
        made: list[str] = self.layout.notes(found)
        return made

    def draw(self, found: dict[str, Any], canvas: Any) -> None:
        """Draw the figures on an empty matplotlib figure."""
        self.layout.draw(found, canvas)


class Kept:
    """A folder of finished parts: what was measured under the same settings is not measured again.

    Attributes:
        folder: where parts are kept.
        fresh: measure all anew.
        workers: processes that measure `parts`, with one thread each; None: this one, with its own threads.
    """

    def __init__(self, folder: Path, *, fresh: bool = False, workers: int | None = None) -> None:
        self.folder = folder
        self.fresh = fresh
        self.workers = workers

    def part(self, settings: dict[str, Any], measure: Measure) -> dict[str, Any]:
        """Return a part's figures, from its file where it was measured under these settings, anew where not."""
        path, told = self._place(settings)
        found = self._found(path, told)
        return self._keep(path, told, measure()) if found is None else found

    def parts(self, asked: Sequence[tuple[str, dict[str, Any], Measure]], say: Say) -> list[dict[str, Any]]:
        """Return several parts' figures, each asked for by what is said, its settings, and what measures it.

        Parts do not depend on one another, nor on how many processes measure them; each is kept when it is done.
        """
        places = [self._place(settings) for _, settings, _ in asked]
        found = [self._found(*place) for place in places]
        missing = [number for number, figures in enumerate(found) if figures is None]
        if self.workers is None:
            for number in missing:
                say(asked[number][0])
                found[number] = self._keep(*places[number], asked[number][2]())
        else:
            for number, figures in _measured({number: asked[number][2] for number in missing}, self.workers):
                found[number] = self._keep(*places[number], figures)
                say(f"{asked[number][0]} is measured")
        return [figures for figures in found if figures is not None]

    def _place(self, settings: dict[str, Any]) -> tuple[Path, Any]:
        told = plain({"format": FORMAT, "version": fedveil.__version__, **settings})
        name = hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]
        return self.folder / "parts" / f"{name}.json", told

    def _found(self, path: Path, told: Any) -> dict[str, Any] | None:
        found = None if self.fresh else _read(path)
        return None if found is None or found.get("settings") != told else dict(found["figures"])

    def _keep(self, path: Path, told: Any, figures: dict[str, Any]) -> dict[str, Any]:
        kept: dict[str, Any] = plain(figures)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps({"settings": told, "figures": kept}))
        return kept


def _measured(measures: dict[int, Measure], workers: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """Measure in processes of one thread each, and yield what is done; the first that fails stops the others."""
    if not measures:
        return
    pool = ProcessPoolExecutor(
        min(workers, len(measures)), get_context("spawn"), initializer=_begin, initargs=(os.getpid(),)
    )
    try:
        number_of = {pool.submit(measure): number for number, measure in measures.items()}
        for done in as_completed(number_of):
            yield number_of[done], done.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _begin(parent: int) -> None:
    """Prepare a process: one thread, and an end with its parent; Ctrl-C is for the parent."""
    import torch

    end_with(parent)()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
    threadpool_limits(1)


def _read(path: Path) -> dict[str, Any] | None:
    """Return a part's file; None where there is none or where it is not whole."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and isinstance(found.get("figures"), dict) else None
