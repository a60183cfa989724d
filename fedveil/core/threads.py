"""One thread for each computation, also where several computations run in threads of their own.

Small steps gain nothing from more threads and lose much on a busy machine, and sums in a fixed order give the same
bits everywhere. The limits of BLAS and torch hold for the whole process, so computations in several threads share
them. The limit of OpenMP holds for one thread only, so every thread sets its own.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import torch
from threadpoolctl import ThreadpoolController

from fedveil.core.shared_context import SharedContext

Result = TypeVar("Result")


@contextmanager
def single_thread() -> Iterator[None]:
    """Limit BLAS, OpenMP and torch to one thread while any computation is inside; may be nested."""
    with _process_wide, _limited("openmp"):
        torch.set_num_threads(1)  # in every thread, since torch, too, keeps a part of its limit by thread
        yield


@contextmanager
def _limits_of_the_process() -> Iterator[None]:
    threads = torch.get_num_threads()
    with _limited("blas"):
        try:
            yield
        finally:
            torch.set_num_threads(threads)


@contextmanager
def _limited(libraries: str) -> Iterator[None]:
    """Limit one sort of libraries; others are not even restored, since they may be other threads' at that time."""
    with ThreadpoolController().select(user_api=libraries).limit(limits=1):
        yield


_process_wide = SharedContext(_limits_of_the_process)


def usable_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def side_by_side(jobs: Sequence[Callable[[], Result]], workers: int) -> list[Result]:
    """Run jobs, at most `workers` at a time, each on one thread; results come in the jobs' order.

    If a job fails, those that have not started are not started, and its error is raised.
    """
    if workers == 1 or len(jobs) == 1:
        return [_alone(job) for job in jobs]
    # Jobs in several threads may swap the process's warning filters and restore them in another order.
    with single_thread(), warnings.catch_warnings(), ThreadPoolExecutor(workers) as pool:
        futures = [pool.submit(_alone, job) for job in jobs]
        try:
            return [future.result() for future in futures]
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _alone(job: Callable[[], Result]) -> Result:
    with single_thread():
        return job()
