"""A study's directory read back: finished cells, rows over seeds, and the frontier."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedveil.config.cells import Cell
from fedveil.core.errors import InputError, nearest
from fedveil.core.figures import Estimate
from fedveil.core.randomness import numpy_generator
from fedveil.federation.progress import RoundRecord
from fedveil.studies.checked_json import Damaged, JsonObject
from fedveil.studies.frontier import Frontier, Point
from fedveil.studies.model import CellConfig, CellFigures, StudyFacts
from fedveil.studies.reading import (
    Arrays,
    read_config,
    read_facts,
    read_result,
    read_rounds,
    read_seconds,
    read_tensors,
)
from fedveil.studies.rows import Row, by_point, rows_at, rows_of, spread_of
from fedveil.studies.seeds import CHANCES, seed_factor, these_releases


@dataclass(frozen=True, eq=False)
class CellResult:
    """A finished cell; its larger files are read when they are first used."""

    cell: Cell
    folder: Path = field(repr=False)
    result: CellFigures = field(repr=False)

    @property
    def id(self) -> str:
        """Its name, which is also the name of its directory."""
        return self.cell.id

    @property
    def method(self) -> str:
        """The name of its method."""
        return self.cell.method

    @property
    def strength(self) -> float | None:
        """The strength of its method."""
        return self.cell.strength

    @property
    def seed(self) -> int:
        """Its seed."""
        return self.cell.seed

    @cached_property
    def config(self) -> CellConfig:
        """How it was computed: settings and versions."""
        return read_config(self.folder)

    @cached_property
    def metrics(self) -> list[RoundRecord]:
        """One record per round; empty if the file is missing or damaged."""
        return read_rounds(self.folder)

    @cached_property
    def draws(self) -> Arrays:
        """Bootstrap draws behind its figures; entry 0 is the figure of the sample itself."""
        return read_tensors(self.folder / "draws.safetensors")

    @cached_property
    def sample(self) -> Arrays:
        """What some test people released, with their attributes' codes."""
        return read_tensors(self.folder / "sample.safetensors")

    @cached_property
    def seconds(self) -> float | None:
        """How long it took."""
        return read_seconds(self.folder)


class DamagedCell(NamedTuple):
    """A planned cell whose result cannot be used, and why."""

    id: str
    why: str


@dataclass(frozen=True, eq=False, repr=False)
class StudyResults:
    """A study, finished or not.

    Attributes:
        folder: its directory.
        facts: what the directory says about the study.
        cells: finished cells, in the planned order.
        missing: planned cells that are not finished.
        damaged: those of them whose result cannot be used, and why.
    """

    folder: Path
    facts: StudyFacts
    cells: list[CellResult]
    missing: list[Cell]
    damaged: list[DamagedCell]

    def __repr__(self) -> str:
        damaged = f", {len(self.damaged)} damaged" if self.damaged else ""
        return f"StudyResults({self.name}: {len(self.cells)} of {len(self.planned)} cells{damaged}, in {self.folder})"

    @property
    def name(self) -> str:
        """The study's name."""
        return self.facts.name

    @property
    def study(self) -> JsonObject:
        """The study in full, as plain values."""
        return dict(self.facts.study)

    @property
    def planned(self) -> list[Cell]:
        """All cells of the study."""
        return list(self.facts.cells)

    @property
    def complete(self) -> bool:
        """Whether every planned cell is finished."""
        return not self.missing

    @property
    def tasks(self) -> list[str]:
        """The tasks that were learnt, in the study's order; before any cell is finished, those that the study names."""
        return list(dict.fromkeys(task for cell in self.cells for task in cell.result.utility)) or [*self.facts.tasks]

    @property
    def attributes(self) -> list[str]:
        """The attributes that were attacked, in the study's order; before any cell is finished, those it names."""
        attacked = dict.fromkeys(attribute for cell in self.cells for attribute in cell.result.leakage)
        return list(attacked) or [*self.facts.attributes]

    @cached_property
    def rows(self) -> list[Row]:
        """One row per method, strength, task, attribute and attacker, averaged over seeds."""
        return rows_of(self.cells)

    def rows_about(self, task: str, attribute: str) -> list[Row]:
        """Return the rows of one task and one attribute."""
        spread = spread_of(self.cells, attribute)
        points = by_point(self.cells).values()
        return [row for cells_at_point in points for row in rows_at(cells_at_point, task, attribute, spread)]

    def inputs(self, seed: int) -> Arrays | None:
        """Return the raw inputs of the people whose releases were sampled."""
        return read_tensors(self.folder / f"inputs-seed{seed}.safetensors") or None

    def frontier(self, task: str | None = None, attribute: str | None = None) -> Frontier:
        """Return the frontier of one task and attribute (default: the first of each), from the cells that have both."""
        if not self.cells:
            raise InputError(f"{self.folder}: no cell is finished yet; run the study first")
        task, attribute = task or self.tasks[0], attribute or self.attributes[0]
        for name, choices, what in ((task, self.tasks, "task"), (attribute, self.attributes, "attribute")):
            if name not in choices:
                raise InputError(f"{self.folder}: no {what} {name!r} in the study: {nearest(name, choices)}")
        cells = [cell for cell in self.cells if cell.result.lacks(task, attribute) is None]
        if not cells:
            raise InputError(f"{self.folder}: no finished cell has figures for both {task!r} and {attribute!r}")
        points = [_point(cells_at_point, task, attribute) for cells_at_point in by_point(cells).values()]
        # Chance, priors and the floor do not depend on the method, so one cell of each seed is enough.
        results = list({cell.seed: cell.result for cell in reversed(cells)}.values())
        judged = [result.leakage[attribute] for result in results]
        floors = [floor for result in results if (floor := result.floor_of(task, attribute)) is not None]
        against = f"drop-columns ({attribute})"
        return Frontier.of(
            points,
            chance=1 / len(judged[0].classes),
            prior=float(np.mean([judgement.prior.estimate for judgement in judged])),
            utility_prior=float(np.mean([result.utility[task].prior for result in results])),
            floor=these_releases(floors, CHANCES) if len(floors) == len(results) else None,
            baseline=against if any(cell.method == against for cell in cells) else "drop-columns",
        )

    def as_dict(self) -> dict[str, Any]:
        """Return what results.json holds."""
        pairs = dict.fromkeys((row.task, row.attribute) for row in self.rows)
        return {
            "study": self.name,
            "complete": self.complete,
            "rows": [row.as_dict() for row in self.rows],
            "frontiers": {
                f"{task}|{attribute}": self.frontier(task, attribute).as_dict()
                for task in self.tasks
                for attribute in self.attributes
                if (task, attribute) in pairs
            },
        }


def open_study(folder: str | Path) -> StudyResults:
    """Read a directory that `fedveil run` has written; of an unfinished study, the finished cells are read."""
    folder = Path(folder)
    facts = read_facts(folder)
    cells, missing, damaged = [], [], []
    for planned in facts.cells:
        cell_folder = folder / "cells" / planned.id
        try:
            result = read_result(cell_folder, planned.id)
        except Damaged as fault:
            result = None
            damaged.append(
                DamagedCell(planned.id, f"its result cannot be read ({fault}); run the study again to recompute it")
            )
        if result is None:
            missing.append(planned)
        else:
            cells.append(CellResult(planned, cell_folder, result))
    return StudyResults(folder, facts, cells, missing, damaged)


def _point(cells_at_point: Sequence[CellResult], task: str, attribute: str) -> Point:
    """Return the point of one method and strength."""
    served = [cell.result.utility[task] for cell in cells_at_point]
    strongest = [cell.result.strongest(attribute) for cell in cells_at_point]
    utility = these_releases([figures.accuracy for figures in served], CHANCES)
    leakage = these_releases([figures.balanced_accuracy for figures in strongest], CHANCES)
    return Point(
        method=cells_at_point[0].method,
        strength=cells_at_point[0].strength,
        utility=utility,
        leakage=leakage,
        validation_utility=float(np.mean([figures.validation_accuracy for figures in served])),
        validation_leakage=float(np.mean([figures.validation_balanced_accuracy for figures in strongest])),
        seed_leakages=tuple(figures.balanced_accuracy for figures in strongest),
        utility_draws=draws_of_mean(cells_at_point, f"utility/{task}", utility),
        leakage_draws=draws_of_mean(cells_at_point, f"leakage/{attribute}", leakage),
    )


DRAWS = 400


def draws_of_mean(cells_at_point: Sequence[CellResult], name: str, figure: Estimate) -> np.ndarray:
    """Return draws of the mean over S seeds; every point resamples the same people and seeds, so they are paired.

    They compare methods, and a comparison should also hold for other seeds; so they spread more than the interval of
    these releases. The mean of the seeds' draws, whose deviations are independent, is stretched by √S, since seeds may
    share their test people; seeds drawn with replacement are stretched to t·s/√S. If a cell's draws are lost, normal
    draws with the interval's width replace them.
    """
    rng = numpy_generator(0, "draws of the mean")
    picked = rng.random((DRAWS, 64))[:, : len(cells_at_point)]
    normal = rng.standard_normal(DRAWS)
    by_cell = [np.ravel(cell.draws.get(name, np.empty(0))) for cell in cells_at_point]
    if any(len(draws) < 101 for draws in by_cell):
        return np.asarray(figure.estimate + normal * (figure.high - figure.low) / (2 * 1.96))
    table = np.stack([np.resize(draws[1:], DRAWS) for draws in by_cell], axis=1)
    if len(cells_at_point) == 1:
        return np.asarray(table[:, 0])
    points = np.array([draws[0] for draws in by_cell])
    people = (table - points).mean(axis=1) * math.sqrt(len(cells_at_point))
    seeds = points[(picked * len(cells_at_point)).astype(int)].mean(axis=1) - points.mean()
    return np.asarray(points.mean() + people + seeds * seed_factor(len(cells_at_point)))
