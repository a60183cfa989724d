"""A study's directory read back: finished cells, rows over seeds, and the frontier."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file

from fedveil.core.errors import InputError, nearest
from fedveil.core.figures import Estimate
from fedveil.core.randomness import numpy_generator
from fedveil.studies.frontier import Frontier, Point
from fedveil.studies.rows import CHANCES, averaged, by_point, rows_of, seed_factor
from fedveil.studies.store import read_json, read_study_file, sound_result

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class CellResult:
    """A finished cell; what is large is read when it is first asked for."""

    id: str
    method: str
    strength: float | None
    seed: int
    folder: Path
    result: dict[str, Any] = field(repr=False)

    @cached_property
    def config(self) -> dict[str, Any]:
        """What it was made of, and by which versions."""
        return read_json(self.folder / "config.json") or {}

    @cached_property
    def metrics(self) -> list[dict[str, Any]]:
        """One record per round; empty where the file is missing or damaged."""
        try:
            return [json.loads(line) for line in (self.folder / "metrics.jsonl").read_text("utf-8").splitlines()]
        except (OSError, ValueError):
            return []

    @cached_property
    def draws(self) -> Arrays:
        """Bootstrap draws behind its figures, entry 0 the sample."""
        return read_tensors(self.folder / "draws.safetensors")

    @cached_property
    def sample(self) -> Arrays:
        """What some test people released, with their attributes' codes."""
        return read_tensors(self.folder / "sample.safetensors")

    @cached_property
    def seconds(self) -> float | None:
        """How long it took."""
        found = (read_json(self.folder / "timing.json") or {}).get("seconds")
        return float(found) if isinstance(found, int | float) else None


@dataclass(frozen=True, eq=False)
class StudyResults:
    """A study, finished or not.

    Attributes:
        folder: its directory.
        facts: what study.json says.
        cells: finished cells, in the planned order.
        missing: planned cells that are not finished.
        damaged: planned cells whose result cannot be read, and why.
    """

    folder: Path
    facts: dict[str, Any] = field(repr=False)
    cells: list[CellResult] = field(repr=False)
    missing: list[dict[str, Any]]
    damaged: list[tuple[str, str]]

    @property
    def name(self) -> str:
        """The study's name."""
        return str(self.facts["name"])

    @property
    def study(self) -> dict[str, Any]:
        """The study as plain values."""
        return dict(self.facts["study"])

    @property
    def planned(self) -> list[dict[str, Any]]:
        """All cells of the study."""
        return list(self.facts["cells"])

    @property
    def complete(self) -> bool:
        """Whether every planned cell is finished."""
        return not self.missing

    @property
    def tasks(self) -> list[str]:
        """The tasks that were learnt, in the study's order."""
        return list(dict.fromkeys(task for cell in self.cells for task in cell.result["utility"]))

    @property
    def attributes(self) -> list[str]:
        """The attributes that were attacked, in the study's order."""
        return list(dict.fromkeys(name for cell in self.cells for name in cell.result["leakage"]))

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """One row per method, strength, task, attribute and attacker, averaged over seeds."""
        return rows_of(self.cells)

    def inputs(self, seed: int) -> Arrays | None:
        """Return the raw inputs of the people whose releases were sampled."""
        return read_tensors(self.folder / f"inputs-seed{seed}.safetensors") or None

    def frontier(self, task: str | None = None, attribute: str | None = None) -> Frontier:
        """Return the frontier of one task and attribute; the first of each where none is named."""
        if not self.cells:
            raise InputError(f"{self.folder}: no cell is finished yet; run the study first")
        task, attribute = task or self.tasks[0], attribute or self.attributes[0]
        for name, known, what in ((task, self.tasks, "task"), (attribute, self.attributes, "attribute")):
            if name not in known:
                raise InputError(f"{self.folder}: no {what} {name!r} in the study: {nearest(name, known)}")
        points = [
            _point(method, strength, same, task, attribute) for (method, strength), same in by_point(self.cells).items()
        ]
        # What does not depend on the method: one cell of each seed tells.
        seeds = list({cell.seed: cell.result for cell in reversed(self.cells)}.values())
        judged, served = seeds[0]["leakage"][attribute], [one["utility"][task] for one in seeds]
        floors = [one["floor"].get(task, {}).get(attribute, {}).get("balanced_accuracy") for one in seeds]
        own = f"drop-columns ({attribute})"
        return Frontier.of(
            points,
            chance=1 / len(judged["classes"]),
            prior=float(np.mean([one["leakage"][attribute]["prior"]["estimate"] for one in seeds])),
            utility_prior=float(np.mean([one["prior"] for one in served])),
            floor=None if None in floors else averaged(floors, CHANCES),
            baseline=own if any(cell.method == own for cell in self.cells) else "drop-columns",
        )

    def as_dict(self) -> dict[str, Any]:
        """Return what results.json holds."""
        pairs = [(task, attribute) for task in self.tasks for attribute in self.attributes if self.cells]
        return {
            "study": self.name,
            "complete": self.complete,
            "rows": self.rows,
            "frontiers": {f"{task}|{name}": self.frontier(task, name).as_dict() for task, name in pairs},
        }


def open_study(folder: str | Path) -> StudyResults:
    """Read a directory that `fedveil run` has written; an unfinished study is read as far as it goes."""
    folder = Path(folder)
    facts = read_study_file(folder)
    cells, missing, damaged = [], [], []
    for planned in facts["cells"]:
        where = folder / "cells" / str(planned["id"])
        result = sound_result(read_json(where / "result.json"), planned["id"])
        if result is not None:
            named = {key: planned[key] for key in ("id", "method", "strength", "seed")}
            cells.append(CellResult(**named, folder=where, result=result))
            continue
        missing.append(planned)
        if (where / "result.json").exists():
            damaged.append((planned["id"], "its result cannot be read; run the study again to compute it anew"))
    return StudyResults(folder, facts, cells, missing, damaged)


def read_tensors(path: Path) -> Arrays:
    """Return a safetensors file's arrays; none where it is missing or damaged."""
    try:
        return dict(load_file(path))
    except (OSError, ValueError, SafetensorError):
        return {}


def _point(method: str, strength: float | None, same: list[CellResult], task: str, attribute: str) -> Point:
    served = [cell.result["utility"][task] for cell in same]
    worst = [cell.result["leakage"][attribute]["worst"] for cell in same]
    utility = averaged([one["accuracy"] for one in served], CHANCES)
    leakage = averaged([one["balanced_accuracy"] for one in worst], CHANCES)
    return Point(
        method=method,
        strength=strength,
        utility=utility,
        leakage=leakage,
        validation_utility=float(np.mean([one["validation_accuracy"] for one in served])),
        validation_leakage=float(np.mean([one["validation_balanced_accuracy"] for one in worst])),
        utility_draws=_draws(same, f"utility/{task}", utility),
        leakage_draws=_draws(same, f"leakage/{attribute}", leakage),
    )


DRAWS = 400


def _draws(same: list[CellResult], name: str, figure: Estimate) -> np.ndarray:
    """Return draws of the mean over S seeds: people and seeds are resampled alike for every point, so they are paired.

    They spread as `averaged` says: the mean of the seeds' own draws, whose deviations are independent, is stretched by
    √S, since seeds may share their test people; seeds drawn with replacement are stretched as t·s/√S asks.
    Where a cell's draws are lost, normal ones with the interval's width stand in.
    """
    rng = numpy_generator(0, "draws of the mean")
    picked = rng.random((DRAWS, 64))[:, : len(same)]
    normal = rng.standard_normal(DRAWS)
    found = [cell.draws.get(name, np.empty(0))[1:] for cell in same]
    if any(len(one) < 100 for one in found):
        return np.asarray(figure.estimate + normal * (figure.high - figure.low) / (2 * 1.96))
    table = np.stack([np.resize(one, DRAWS) for one in found], axis=1)
    if len(same) == 1:
        return np.asarray(table[:, 0])
    points = np.array([cell.draws[name][0] for cell in same])
    people = (table - points).mean(axis=1) * math.sqrt(len(same))
    seeds = points[(picked * len(same)).astype(int)].mean(axis=1) - points.mean()
    return np.asarray(points.mean() + people + seeds * seed_factor(len(same)))
