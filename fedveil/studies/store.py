"""A study's directory: what stands in it, who may write to it, and which cells are finished.

Every file is written beside its place, flushed to disk and renamed, so that a crash or a power cut leaves the old one
or the new one whole. A cell counts as finished once its result.json is there.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from fedveil import __version__
from fedveil.config.cells import Cell, load_data, shared_parts
from fedveil.core.errors import InputError
from fedveil.core.files import write_atomically
from fedveil.studies.check import Plan, digest_of
from fedveil.studies.checked_json import JsonObject
from fedveil.studies.model import FORMAT, CellFigures, StudyFacts
from fedveil.studies.provenance import code_digest, revision
from fedveil.studies.reading import read_config, read_facts, sound_result

OURS = {"study.json", "cells", "results.json", "results.csv", "results.parquet", "report.html", "reproduced.json"}


class Store:
    """The directory of one study."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def cell(self, cell: Cell) -> Path:
        """Return a cell's own directory."""
        return self.folder / "cells" / cell.id

    @property
    def known(self) -> StudyFacts | None:
        """What study.json says, or None where there is none."""
        return read_facts(self.folder) if (self.folder / "study.json").exists() else None

    def check_place(self) -> None:
        """Refuse a place that is no directory, or holds files but no study."""
        if self.folder.exists() and not self.folder.is_dir():
            raise InputError(f"{self.folder}: is a file; name a directory with --out")
        if (self.folder / "study.json").exists() or not self.folder.exists():
            return
        strange = sorted(path.name for path in self.folder.iterdir() if path.name != ".lock")
        if strange:
            raise InputError(
                f"{self.folder}: holds other files ({strange[0]}, …) and no study; name an empty one with --out"
            )

    def check(self, plan: Plan) -> list[str]:
        """Refuse a directory of another study, saying what differs; return warnings."""
        known = self.known
        if known is None:
            return []
        differs = _differences(known.study, plan)
        if not differs and known.data != _digest(plan, known):
            differs.append("the data's records are others")
        if differs:
            raise InputError(
                f"{self.folder}: holds another study: {'; '.join(differs[:3])}; name another directory with --out, "
                "or discard its results with --fresh"
            )
        warnings = []
        for cell in plan.cells:
            made_by = self.made_by(cell)
            if made_by is not None and made_by.get("code") != code_digest():
                was = f"{made_by.get('fedveil')} ({made_by.get('revision') or 'revision unknown'})"
                warnings.append(
                    f"{cell.id}: was computed by other code, fedveil {was}, and is kept; --fresh computes it anew"
                )
        return warnings

    def made_by(self, cell: Cell) -> dict[str, Any] | None:
        """Return which code a finished cell was computed by; None where it is not finished."""
        if self.result(cell) is None:
            return None
        config = read_config(self.cell(cell))
        return {**config.versions, "revision": config.revision}

    def result(self, cell: Cell) -> CellFigures | None:
        """Return the figures of a finished cell; None where it is not finished, or its file is damaged."""
        return sound_result(self.cell(cell), cell.id)

    def open(self, plan: Plan, command: str) -> None:
        """Write down what the directory is for."""
        facts = {
            "format": FORMAT,
            "name": plan.study.name,
            "study": plan.study.model_dump(mode="json"),
            "command": command,
            "version": __version__,
            "revision": revision(),
            "data": plan.digest,
            "data_seed": plan.study.seeds[0],
            "cells": [cell.as_dict() for cell in plan.cells],
        }
        (self.folder / "cells").mkdir(parents=True, exist_ok=True)
        write_atomically(self.folder / "study.json", json.dumps(facts, indent=1))

    def discard(self) -> None:
        """Remove a study's results, and nothing that is not ours."""
        for path in sorted(self.folder.iterdir()) if self.folder.exists() else []:
            if path.name in ("cells", ".report-cache", "tensorboard", "mlflow"):
                shutil.rmtree(path)
            elif path.name in OURS or path.name.startswith("inputs-seed"):
                path.unlink()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the directory: a second run on it is refused. A killed process lets go of it."""
        fresh = not self.folder.exists()
        self.folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(self.folder / ".lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            raise InputError(f"{self.folder}: another run is at work here; wait for it, or use --out") from None
        try:
            yield
        finally:
            lock.release()
            if fresh and not (self.folder / "study.json").exists():  # refused before anything was written
                shutil.rmtree(self.folder, ignore_errors=True)


def _digest(plan: Plan, known: StudyFacts) -> str:
    """Return the digest of the study's records as split by the seed that the directory's digest is of."""
    if known.data_seed is None or known.data_seed == plan.study.seeds[0]:
        return plan.digest
    return digest_of(load_data(plan.study, known.data_seed))


def _differences(known: JsonObject, plan: Plan) -> list[str]:
    """Say in which shared fields a directory's study differs; more methods, strengths or seeds are no difference."""
    shared = shared_parts(plan.study)
    found = [] if known.get("name") == plan.study.name else [f"name was {known.get('name')!r}, is {plan.study.name!r}"]

    def compare(was: Any, now: Any, path: str) -> None:
        if isinstance(was, dict) and isinstance(now, dict):
            for key in sorted(set(was) | set(now)):
                compare(was.get(key), now.get(key), f"{path}.{key}" if path else key)
        elif was != now:
            found.append(f"{path} was {was!r}, is {now!r}")

    compare({name: known.get(name) for name in shared}, shared, "")
    return found
