"""One thread for each computation, also where several computations run in threads of their own.

Small steps gain nothing from more threads and lose much on a busy machine, and sums in a fixed order give the same
bits everywhere. The limits of BLAS and torch hold for the whole process: they are set when the first computation
enters and restored when the last one leaves, so that computations in several threads do not undo each other's limits.
The limit of OpenMP holds for one thread only, so every thread sets its own.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from threadpoolctl import ThreadpoolController

Result = TypeVar("Result")

_lock = threading.Lock()
_inside = 0
_torch_threads = 1
_blas: Any = None


@contextmanager
def single_thread() -> Iterator[None]:
    """Limit BLAS, OpenMP and torch to one thread while any computation is inside; may be nested."""
    global _inside, _torch_threads, _blas
    with _lock:
        # Selected, since limits on all libraries would also be restored on all of them, those of other threads too.
        libraries = ThreadpoolController()
        if not _inside:
            _torch_threads = torch.get_num_threads()
            _blas = libraries.select(user_api="blas").limit(limits=1)
        _inside += 1
        openmp = libraries.select(user_api="openmp").limit(limits=1)
        torch.set_num_threads(1)  # in every thread, since torch, too, keeps a part of its limit by thread
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if not _inside:
                _blas.restore_original_limits()
                torch.set_num_threads(_torch_threads)
            openmp.restore_original_limits()


def usable_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def side_by_side(jobs: Sequence[Callable[[], Result]], workers: int) -> list[Result]:
    """Run jobs, at most `workers` at a time, each on one thread; results come in the jobs' order.

    If a job fails, those that have not started are not started, and its error is raised.
    """
    if workers == 1 or len(jobs) == 1:
        return [_alone(job) for job in jobs]
    with single_thread(), ThreadPoolExecutor(workers) as pool:
        futures = [pool.submit(_alone, job) for job in jobs]
        try:
            return [future.result() for future in futures]
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _alone(job: Callable[[], Result]) -> Result:
    with single_thread():
        return job()
