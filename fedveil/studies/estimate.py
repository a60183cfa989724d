"""The time and disk space that a study will take, estimated by trying a little of each method; nothing is written."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from fedveil.config.cells import load_data, make_federation, make_game
from fedveil.config.study import Method
from fedveil.core.errors import InputError
from fedveil.studies.check import Plan
from fedveil.studies.judging import releases
from fedveil.studies.reading import read_seconds
from fedveil.studies.sampling import SAMPLED_PEOPLE
from fedveil.studies.store import Store
from fedveil.view import UPDATE_VIEWS, Pool

if TYPE_CHECKING:
    from fedveil.federation.run import Run

PROBED_PEOPLE = 1000
START_SECONDS = 4.0  # a worker's imports, and reading the data


@dataclass(frozen=True)
class Cost:
    """What one cell of a method costs: seconds on one worker, bytes when finished, and extra bytes while it runs."""

    seconds: float
    bytes: int
    scratch: int
    measured: bool


def estimate(plan: Plan, store: Store) -> dict[str, Cost]:
    """Return each method's cost per cell, from a finished cell if there is one, or else from a short trial."""
    return {method.name: _finished(plan, store, method) or _probed(plan, method) for method in plan.methods}


def _finished(plan: Plan, store: Store, method: Method) -> Cost | None:
    for cell in plan.cells:
        if cell.method == method.name and store.result(cell) is not None:
            folder = store.cell(cell)
            seconds = read_seconds(folder)
            if seconds is not None:
                size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
                return Cost(seconds, size, size, True)
    return None


def _probed(plan: Plan, method: Method) -> Cost:
    from fedveil.attacks.panel import panel
    from fedveil.federation.run import begin

    study = plan.study
    strength = method.points[0]
    data = load_data(study, study.seeds[0])
    run = begin(make_federation(study, method, strength, study.seeds[0], data), make_game(method, strength))
    planned = method.rounds or study.federation.rounds
    rounds = sum(stage.rounds or planned for stage in run.stages)
    training = _first_round(run) * rounds if rounds else 0.0
    width, attack = run.shape.features[0], 0.0
    if study.attacks.view not in UPDATE_VIEWS and releases(run, study.attacks.view):
        view = run.view(study.attacks.view)
        width = view.victims.vectors.shape[1]
        rng = np.random.default_rng(0)

        def some(pool: Pool) -> Pool:
            return pool.take(np.sort(rng.choice(len(pool), min(PROBED_PEOPLE, len(pool)), replace=False)))

        small = replace(
            view, auxiliary=some(view.auxiliary), validation=some(view.validation), victims=some(view.victims)
        )
        started = time.perf_counter()
        with suppress(InputError):  # too few people of some value for a trial run
            panel(study.attacks.panel, draws=100, workers=study.threads).judge(small, study.asked[0])
        spent = time.perf_counter() - started
        attack = spent * max(1.0, len(view.auxiliary) / len(small.auxiliary)) * len(study.asked)
    weights = 4 * sum(layout.size for layout in run.layouts.values())
    final_bytes = weights + SAMPLED_PEOPLE * width * 4 + 60_000
    local = sum(
        4 * run.layouts[name].size for stage in run.stages for name in stage.players if name not in stage.shared
    )
    return Cost(training + 1.3 * attack, final_bytes, 3 * weights + local * study.federation.devices, False)


def _first_round(run: Run) -> float:
    """Return the seconds that one round takes; its result is discarded."""
    run.stages = tuple(replace(stage, rounds=1) for stage in run.stages)
    started = time.perf_counter()
    run.play(1)
    return (time.perf_counter() - started) / len(run.stages)
