"""A study's directory: what it contains, and which cells are finished.

A cell counts as finished once its result.json exists.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, ClassVar

from fedveil import __version__
from fedveil.config.cells import Cell, load_data, shared_parts
from fedveil.core.errors import InputError
from fedveil.core.files import write_atomically
from fedveil.studies.check import Plan
from fedveil.studies.checked_json import JsonObject
from fedveil.studies.model import FORMAT, CellFigures, StudyFacts
from fedveil.studies.provenance import code_digest, revision
from fedveil.studies.reading import read_config, read_facts, sound_result
from fedveil.studies.results_folder import ComputedBy, ResultsFolder, other_code

OURS = {"study.json", "cells", "results.json", "results.csv", "results.parquet", "report.html", "reproduced.json"}


class Store(ResultsFolder):
    """The directory of one study."""

    mark: ClassVar[str] = "study.json"
    noun: ClassVar[str] = "cells"

    def cell(self, cell: Cell) -> Path:
        """Return a cell's own directory."""
        return self.folder / "cells" / cell.id

    @property
    def facts(self) -> StudyFacts | None:
        """What study.json says, or None if it does not exist."""
        return read_facts(self.folder) if self.begun else None

    def check(self, plan: Plan) -> list[str]:
        """Refuse a directory of another study, saying what differs; return warnings."""
        stored = self.facts
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
        computed = {cell.id: self.computed_by(cell) for cell in plan.cells if self.result(cell) is not None}
        return other_code(computed, code_digest())

    def computed_by(self, cell: Cell) -> ComputedBy:
        """Return which code computed a finished cell."""
        config = read_config(self.cell(cell))
        return ComputedBy(config.versions.get("code"), config.versions.get("fedveil"), config.revision)

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
