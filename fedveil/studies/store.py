"""A study's directory: what it contains, who may write to it, and which cells are finished.

Every file is written under a temporary name, flushed to disk and renamed, so that a crash or a power cut leaves either
the old file or the new one whole. A cell counts as finished once its result.json exists.
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
from fedveil.studies.check import Plan
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
        """What study.json says, or None if it does not exist."""
        return read_facts(self.folder) if (self.folder / "study.json").exists() else None

    def check_place(self) -> None:
        """Refuse a path that is a file, or a directory with files but no study."""
        if self.folder.exists() and not self.folder.is_dir():
            raise InputError(f"{self.folder}: is a file; name a directory with --out")
        if (self.folder / "study.json").exists() or not self.folder.exists():
            return
        other_files = sorted(path.name for path in self.folder.iterdir() if path.name != ".lock")
        if other_files:
            raise InputError(
                f"{self.folder}: holds other files ({other_files[0]}, …) and no study; name an empty directory with "
                "--out"
            )

    def check(self, plan: Plan) -> list[str]:
        """Refuse a directory of another study, saying what differs; return warnings."""
        stored = self.known
        if stored is None:
            return []
        differences = _differences(stored.study, plan)
        if not differences and stored.data != _digest(plan, stored):
            differences.append("the records of its data are different")
        if differences:
            raise InputError(
                f"{self.folder}: holds another study: {'; '.join(differences[:3])}; name another directory with --out, "
                "or discard its results with --fresh"
            )
        warnings = []
        for cell in plan.cells:
            made_by = self.made_by(cell)
            if made_by is not None and made_by.get("code") != code_digest():
                code = f"fedveil {made_by.get('fedveil')} ({made_by.get('revision') or 'revision unknown'})"
                warnings.append(
                    f"{cell.id}: was computed by other code, {code}, and is kept; --fresh computes it again"
                )
        return warnings

    def made_by(self, cell: Cell) -> dict[str, Any] | None:
        """Return which code computed a finished cell; None if it is not finished."""
        if self.result(cell) is None:
            return None
        config = read_config(self.cell(cell))
        return {**config.versions, "revision": config.revision}

    def result(self, cell: Cell) -> CellFigures | None:
        """Return the figures of a finished cell; None if it is not finished, or its file is damaged."""
        return sound_result(self.cell(cell), cell.id)

    def open(self, plan: Plan, command: str) -> None:
        """Write study.json, which says what the directory is for."""
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
        """Remove a study's results, and nothing that fedveil did not write."""
        for path in sorted(self.folder.iterdir()) if self.folder.exists() else []:
            if path.name in ("cells", ".report-cache", "tensorboard", "mlflow"):
                shutil.rmtree(path)
            elif path.name in OURS or path.name.startswith("inputs-seed"):
                path.unlink()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the directory: a second run on it is refused. The lock of a killed process is released."""
        fresh = not self.folder.exists()
        self.folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(self.folder / ".lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            raise InputError(f"{self.folder}: another run is writing here; wait for it, or use --out") from None
        try:
            yield
        finally:
            lock.release()
            if fresh and not (self.folder / "study.json").exists():  # refused before anything was written
                shutil.rmtree(self.folder, ignore_errors=True)


def _digest(plan: Plan, stored: StudyFacts) -> str:
    """Return the digest of the study's records, split with the seed that the directory's digest was computed with."""
    if stored.data_seed is None or stored.data_seed == plan.study.seeds[0]:
        return plan.digest
    return load_data(plan.study, stored.data_seed).digest()


def _differences(stored: JsonObject, plan: Plan) -> list[str]:
    """Say in which shared fields a directory's study differs; more methods, strengths or seeds are no difference."""
    shared, name = shared_parts(plan.study), stored.get("name")
    differences = [] if name == plan.study.name else [f"name was {name!r}, is {plan.study.name!r}"]

    def compare(was: Any, now: Any, path: str) -> None:
        if isinstance(was, dict) and isinstance(now, dict):
            for key in sorted(set(was) | set(now)):
                compare(was.get(key), now.get(key), f"{path}.{key}" if path else key)
        elif was != now:
            differences.append(f"{path} was {was!r}, is {now!r}")

    compare({name: stored.get(name) for name in shared}, shared, "")
    return differences
