"""What a round costs one device in processor seconds; all methods are timed in turn in one process."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from fedveil.config.cells import load_data, make_federation, make_game
from fedveil.federation.exchange import send_updates
from fedveil.federation.run import Run, begin
from fedveil.federation.work import device_states, work_of
from fedveil_papers.rows import Figure

if TYPE_CHECKING:
    from fedveil.studies.check import Plan

Point = tuple[str, float | None]
REPEATS = 7


def device_seconds(plan: Plan, points: Sequence[Point], repeats: int = REPEATS) -> dict[Point, list[float] | None]:
    """Return processor seconds of one device's work in a round of the last stage; None if nothing is trained.

    The device is the one of median size. Its work consists of its local epochs and its shield on the update; neither
    the server's part nor a shield on inputs or releases is counted. Methods take turns, so that a busy moment of the
    machine affects all of them; the first turn of each is not counted. One thread is used.
    """
    seed = plan.study.seeds[0]
    data = load_data(plan.study, seed)
    runs: dict[Point, Run] = {}
    for name, strength in points:
        method = plan.method(name)
        federation = make_federation(plan.study, method, strength, seed, data)
        runs[name, strength] = begin(federation, make_game(method, strength))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        turns: list[dict[Point, float]] = [
            {point: _one_round(run, turn + 1) for point, run in runs.items() if run.stages}
            for turn in range(repeats + 1)
        ]
    finally:
        torch.set_num_threads(threads)
    return {point: [turn[point] for turn in turns[1:]] if run.stages else None for point, run in runs.items()}


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
