"""What a round costs one device in processor seconds; all methods are timed in turn in one process."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fedveil.config.cells import load_data, make_federation, make_game
from fedveil.config.study import Method, Study
from fedveil.federation.exchange import send_updates
from fedveil.federation.run import Run, begin
from fedveil.federation.work import device_states, work_of
from fedveil.studies.units import Report
from fedveil_papers.experiment import Part
from fedveil_papers.rows import Figure

if TYPE_CHECKING:
    from fedveil.studies.check import Plan

Point = tuple[str, float | None]
REPEATS = 7


Seconds = dict[Point, list[float] | None]
"""Processor seconds of each turn by method and strength; None if nothing is trained."""


def timing_part(plan: Plan, points: Sequence[Point]) -> Part:
    """Return the part that times all methods of a study; it is not reused, since times belong to their run."""
    settings = {
        "kind": "device-seconds",
        "study": plan.study.model_dump(mode="json"),
        "methods": [method.model_dump(mode="json") for method in plan.methods],
        "points": points,
    }
    return Part(settings, f"{__name__}:measure_seconds", f"{plan.study.name}: seconds of one device", reused=False)


def measure_seconds(payload: Mapping[str, Any], report: Report) -> dict[str, Any]:
    """Time one device's work in a round of the last stage: the task of `timing_part`.

    The device is the one of median size. Its work consists of its local epochs and its shield on the update; neither
    the server's part nor a shield on inputs or releases is counted. Methods take turns, so that a busy moment of the
    machine affects all of them; the first turn of each is not counted. The process has one thread.
    """
    study = Study.model_validate(payload["study"])
    methods = {method["name"]: Method.model_validate(method) for method in payload["methods"]}
    seed = study.seeds[0]
    data = load_data(study, seed)
    runs: list[Run] = []
    for name, strength in payload["points"]:
        federation = make_federation(study, methods[name], strength, seed, data)
        runs.append(begin(federation, make_game(methods[name], strength)))
    turns: list[list[float | None]] = []
    for turn in range(REPEATS + 1):
        report.progress(turn / (REPEATS + 1), f"turn {turn + 1} of {REPEATS + 1}")
        turns.append([_one_round(run, turn + 1) if run.stages else None for run in runs])
    by_point = zip(*turns[1:], strict=True)
    return {"seconds": [None if seconds[0] is None else list(seconds) for seconds in by_point]}


def seconds_by_point(points: Sequence[Point], figures: Mapping[str, Any]) -> Seconds:
    """Return the figures of `timing_part` by method and strength."""
    return dict(zip(points, figures["seconds"], strict=True))


def _one_round(run: Run, number: int) -> float:
    sizes = run.federation.partition.sizes
    device = np.array([np.argsort(sizes, kind="stable")[len(sizes) // 2]], dtype=np.int64)
    stage = run.stages[-1]
    work = work_of(run, stage, number, device)
    states, memories = device_states(run, stage, device)
    started = time.process_time()
    send_updates(run, work, run.engine.play(work, states, memories))
    return time.process_time() - started


def ratio_of(seconds: list[float] | None, reference: list[float]) -> Figure | None:
    """Return seconds as a multiple of the reference's: the median over turns, with the quartiles as low and high.

    >>> ratio_of([2.0, 4.0, 6.0], [1.0, 2.0, 2.0]).estimate
    2.0
    """
    if seconds is None:
        return None
    ratios = np.array(seconds) / np.maximum(np.array(reference), 1e-9)
    low, middle, high = (float(value) for value in np.quantile(ratios, [0.25, 0.5, 0.75]))
    return Figure(middle, low, high)
