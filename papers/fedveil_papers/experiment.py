"""Experiments: what a preset measures part by part if studies are not enough.

An experiment lists its parts; `measure` computes those that its folder does not hold yet, in the same worker processes
as a study's cells, and keeps each in `parts/<digest of its settings>.json`.
"""

from __future__ import annotations

import hashlib
import json
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import fedveil
from fedveil.core.errors import InputError
from fedveil.core.files import plain, write_atomically
from fedveil.studies.runner import Listener, run_units
from fedveil.studies.units import Unit
from fedveil_papers.rows import PaperFigures
from fedveil_papers.shown import Display, Results

FORMAT = 1
"""Increase this when a change of the code gives other figures for the same settings: stored parts are then not read."""


@dataclass(frozen=True, eq=False)
class Part:
    """One measurement, which depends on no other.

    Attributes:
        settings: everything that its figures depend on, as JSON values: a part stored with the same settings is read.
        task: the function that measures it, as "package.module:function"; called as `function(payload, report)` in
            some process, it returns the figures as JSON values (see `fedveil.studies.units`).
        name: what people read while it is measured.
        payload: what the function receives; default: the settings.
        shares: parts with the same value share a set-up that the task's module caches (`functools.lru_cache`).
        reused: whether figures are stored and read again; times are not, since they belong to the run that took them.
    """

    settings: Mapping[str, Any]
    task: str
    name: str
    payload: Mapping[str, Any] | None = None
    shares: str = ""
    reused: bool = True

    @cached_property
    def identity(self) -> dict[str, Any]:
        """The settings as a part's file holds them, with the format and the version."""
        identity: dict[str, Any] = plain({"format": FORMAT, "version": fedveil.__version__, **self.settings})
        return identity

    @cached_property
    def key(self) -> str:
        """A digest of the identity: the file's name."""
        return hashlib.sha256(json.dumps(self.identity, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def unit(self) -> Unit:
        """The part as a unit of work."""
        payload = self.settings if self.payload is None else self.payload
        return Unit(self.key, self.task, plain(payload), self.name, self.shares)

    def file(self, folder: Path) -> Path:
        """Return the file that stores its figures."""
        return folder / "parts" / f"{self.key}.json"

    def read(self, folder: Path) -> dict[str, Any] | None:
        """Return its figures; None if the file is missing, damaged or has other settings."""
        try:
            content = json.loads(self.file(folder).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        sound = isinstance(content, dict) and isinstance(content.get("figures"), dict)
        return dict(content["figures"]) if sound and content.get("settings") == self.identity else None

    def keep(self, folder: Path, figures: Mapping[str, Any]) -> None:
        """Write its figures."""
        file = self.file(folder)
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, json.dumps({"settings": self.identity, "figures": figures}))


@dataclass(frozen=True)
class Measured:
    """Figures by part, and for parts that could not be measured the reason, by name."""

    figures: dict[str, dict[str, Any]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    def __getitem__(self, part: Part) -> dict[str, Any]:
        return self.figures[part.key]


def missing(parts: Sequence[Part], folder: Path, *, fresh: bool = False) -> list[Part]:
    """Return the parts that must be measured, each once."""
    return [
        part
        for part in {part.key: part for part in parts}.values()
        if fresh or not part.reused or part.read(folder) is None
    ]


def measure(
    parts: Sequence[Part],
    folder: Path,
    *,
    workers: int | None = 0,
    fresh: bool = False,
    listener: Listener | None = None,
) -> Measured:
    """Measure what the folder does not hold yet, and return all figures.

    Args:
        parts: what to measure.
        folder: where figures are stored.
        workers: how many processes compute at the same time, with one thread each; 0: only this process, also with one
            thread; None: one per core. Figures do not depend on it.
        fresh: measure all parts, whatever the folder holds.
        listener: called as parts are measured.
    """
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: is a file; name a directory with --out")
    lacking = {part.key: part for part in missing(parts, folder, fresh=fresh)}
    figures = {
        part.key: stored for part in parts if part.key not in lacking and (stored := part.read(folder)) is not None
    }

    def keep(unit: Unit, result: dict[str, Any]) -> None:
        if lacking[unit.key].reused:
            lacking[unit.key].keep(folder, result)

    outcome = run_units(
        [part.unit for part in lacking.values()],
        folder,
        workers=workers,
        listener=listener,
        keep=keep,
    )
    failed = {lacking[key].name: why for key, why in outcome.failed.items()}
    return Measured({**figures, **outcome.results}, failed)


class Experiment(Display[Results]):
    """A kind of measurement; its settings are the fields of a frozen dataclass."""

    @abstractmethod
    def check(self) -> None:
        """Refuse settings that cannot be run, before anything is run."""

    def locate_data(self) -> None:
        """Find the data that parts read, or download it, before several processes need it; default: none is needed."""

    @abstractmethod
    def parts(self) -> list[Part]:
        """Return everything that is measured."""

    @abstractmethod
    def gather(self, measured: Measured, paper: PaperFigures) -> Results:
        """Return the results, made of the figures of all parts and of the paper's figures."""

    def run(
        self,
        folder: Path,
        paper: PaperFigures = (),
        *,
        workers: int | None = 0,
        fresh: bool = False,
        listener: Listener | None = None,
    ) -> Results:
        """Measure what the folder does not hold yet, and return the results; see `measure`."""
        self.check()
        measured = measure(self.parts(), folder, workers=workers, fresh=fresh, listener=listener)
        if measured.failed:
            name, why = next(iter(measured.failed.items()))
            raise InputError(f"{len(measured.failed)} parts could not be measured, {name} first: {why}")
        return self.gather(measured, paper)
