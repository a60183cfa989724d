"""Experiments: what a preset runs where it is no study: its own measurements, kept part by part."""

from __future__ import annotations

import hashlib
import json
from abc import abstractmethod
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar

import fedveil
from fedveil.files import write_atomically
from fedveil.plain import plain
from fedveil.reproductions.shown import Display, PaperFigures

if TYPE_CHECKING:
    from rich.table import Table

FORMAT = 1
"""To be raised when a change of ours makes the same settings come out otherwise: all is then measured anew."""

Say = Callable[[str], None]
"""Tell whoever waits what is done now."""


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
    """A folder of finished parts: what was measured under the same settings is not measured again."""

    def __init__(self, folder: Path, *, fresh: bool = False) -> None:
        self.folder = folder
        self.fresh = fresh

    def part(self, settings: dict[str, Any], measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return a part's figures, from its file where it was measured under these settings, anew where not."""
        told = plain({"format": FORMAT, "version": fedveil.__version__, **settings})
        name = hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]
        path = self.folder / "parts" / f"{name}.json"
        found = None if self.fresh else _read(path)
        if found is None or found.get("settings") != told:
            found = {"settings": told, "figures": plain(measure())}
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, json.dumps(found))
        figures: dict[str, Any] = found["figures"]
        return figures


def _read(path: Path) -> dict[str, Any] | None:
    """Return a part's file; None where there is none or where it is not whole."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and isinstance(found.get("figures"), dict) else None
