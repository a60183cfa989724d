"""Experiments: what a preset measures part by part if studies are not enough.

An experiment lists its parts; `measure` computes those that its directory does not hold yet, in the same worker
processes as a study's cells, and keeps each in `parts/<digest of its settings>.json`.
"""

from __future__ import annotations

import hashlib
import json
import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import fedveil
from fedveil.core.errors import InputError
from fedveil.core.files import plain, write_atomically
from fedveil.studies.provenance import code_digest, revision
from fedveil.studies.results_folder import ComputedBy, ResultsFolder, other_code
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


class ExperimentStore(ResultsFolder):
    """The directory of one kind of experiment: experiment.json, and a file for each measured part.

    A directory without experiment.json, written by an older version, is read if it holds parts, or results of the same
    kind.
    """

    mark: ClassVar[str] = "experiment.json"
    noun: ClassVar[str] = "parts"

    def __init__(self, folder: Path, kind: str) -> None:
        super().__init__(folder)
        self.kind = kind

    @property
    def begun(self) -> bool:
        """Whether the directory has been written to by an experiment."""
        shows = _read_object(self.folder / "reproduced.json").get("shows")
        by_older_version = isinstance(shows, dict) and shows.get("kind") == self.kind
        return super().begun or by_older_version or bool(self._part_files())

    def file(self, part: Part) -> Path:
        """Return the file of a part's figures."""
        return self.folder / "parts" / f"{part.key}.json"

    def figures(self, part: Part) -> dict[str, Any] | None:
        """Return a part's figures; None if the file is missing, damaged or has other settings."""
        content = _read_object(self.file(part))
        sound = isinstance(content.get("figures"), dict) and content.get("settings") == part.identity
        return dict(content["figures"]) if sound else None

    def keep(self, part: Part, figures: Mapping[str, Any]) -> None:
        """Write a part's figures, with the code that measured them."""
        file = self.file(part)
        file.parent.mkdir(parents=True, exist_ok=True)
        code = {"digest": papers_digest(), "version": fedveil.__version__, "revision": revision()}
        write_atomically(file, json.dumps({"settings": part.identity, "figures": figures, "code": code}))

    def computed_by(self, part: Part) -> ComputedBy:
        """Return which code measured a part; older versions did not write it down."""
        code = _read_object(self.file(part)).get("code")
        if not isinstance(code, dict):
            return ComputedBy(None, fedveil.__version__)  # the version is among the settings, so it is the same
        return ComputedBy(code.get("digest"), code.get("version"), code.get("revision"))

    def missing(self, parts: Sequence[Part], *, fresh: bool = False) -> list[Part]:
        """Return the parts that must be measured, each once."""
        return [
            part
            for part in {part.key: part for part in parts}.values()
            if fresh or not part.reused or self.figures(part) is None
        ]

    def check(self, parts: Sequence[Part]) -> list[str]:
        """Refuse a directory of another kind of experiment; return warnings about parts measured by other code."""
        kind = _read_object(self.folder / self.mark).get("kind", self.kind)
        if kind != self.kind:
            raise InputError(
                f"{self.folder}: holds another experiment: kind was {kind!r}, is {self.kind!r}; name another directory "
                "with --out, or discard its results with --fresh"
            )
        missing = {part.key for part in self.missing(parts)}
        return other_code(
            {part.name: self.computed_by(part) for part in parts if part.key not in missing}, papers_digest()
        )

    def open(self) -> None:
        """Write experiment.json, which says what the directory is for."""
        facts = {"format": FORMAT, "kind": self.kind, "version": fedveil.__version__, "revision": revision()}
        write_atomically(self.folder / self.mark, json.dumps(facts))

    def discard(self) -> None:
        """Remove an experiment's results, and nothing that fedveil did not write."""
        for path in [*self._part_files(), self.folder / "reproduced.json", self.folder / self.mark]:
            path.unlink(missing_ok=True)

    def _part_files(self) -> list[Path]:
        return [path for path in (self.folder / "parts").glob("*.json") if re.fullmatch("[0-9a-f]{16}", path.stem)]


def papers_digest() -> str:
    """Return a digest of all code that parts are measured by: the library's and the papers'."""
    return f"{code_digest()}-{code_digest(Path(__file__).parent)}"


def _read_object(file: Path) -> dict[str, Any]:
    """Return the object in a JSON file; empty if the file is missing or damaged."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


@dataclass(frozen=True)
class Measured:
    """Figures by part, and for parts that could not be measured the reason, by name."""

    figures: dict[str, dict[str, Any]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    def __getitem__(self, part: Part) -> dict[str, Any]:
        return self.figures[part.key]


def measure(
    parts: Sequence[Part],
    store: ExperimentStore,
    *,
    workers: int | None = 0,
    fresh: bool = False,
    listener: Listener | None = None,
) -> Measured:
    """Measure what the experiment's directory does not hold yet, and return all figures.

    Args:
        parts: what to measure.
        store: where figures are stored; refused if the directory holds anything else.
        workers: how many processes compute at the same time, with one thread each; 0: only this process, also with one
            thread; None: one per core. Figures do not depend on it.
        fresh: discard the directory's results first.
        listener: called as parts are measured.
    """
    listener = listener or Listener()
    with store.writing(lambda: store.check(parts), listener.warned, fresh=fresh):
        store.open()
        lacking = {part.key: part for part in store.missing(parts)}
        figures = {
            part.key: stored
            for part in parts
            if part.key not in lacking and (stored := store.figures(part)) is not None
        }

        def keep(unit: Unit, result: dict[str, Any]) -> None:
            if lacking[unit.key].reused:
                store.keep(lacking[unit.key], result)

        units = [part.unit for part in lacking.values()]
        outcome = run_units(units, store.folder, workers=workers, listener=listener, keep=keep)
        failed = {lacking[key].name: why for key, why in outcome.failed.items()}
        return Measured({**figures, **outcome.results}, failed)


def measure_without_keeping(
    parts: Sequence[Part], folder: Path, *, workers: int | None = 0, listener: Listener | None = None
) -> Measured:
    """Measure all parts and keep none of them; `folder` is named if the disk is full."""
    outcome = run_units([part.unit for part in parts], folder, workers=workers, listener=listener)
    names = {part.key: part.name for part in parts}
    return Measured(outcome.results, {names[key]: why for key, why in outcome.failed.items()})


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
        """Measure what the directory does not hold yet, and return the results; see `measure`."""
        self.check()
        store = ExperimentStore(folder, self.kind)
        measured = measure(self.parts(), store, workers=workers, fresh=fresh, listener=listener)
        if measured.failed:
            name, why = next(iter(measured.failed.items()))
            raise InputError(f"{len(measured.failed)} parts could not be measured, {name} first: {why}")
        return self.gather(measured, paper)
