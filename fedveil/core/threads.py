"""Several single-threaded jobs side by side.

Libraries that start threads of their own wait for each other in busy loops: two attackers with two threads each are
slower than one after the other. So every job gets one thread. The limits are set once around all jobs, since a job that
sets and restores a limit of the whole process while others run leaves it at whatever was restored last.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch
from threadpoolctl import threadpool_limits

Result = TypeVar("Result")


def usable_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def side_by_side(jobs: Sequence[Callable[[], Result]], workers: int) -> list[Result]:
    """Run jobs, at most `workers` at a time, each on one thread; results come in the jobs' order.

    If a job fails, those that have not started are not started, and its error is raised.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            if workers == 1 or len(jobs) == 1:
                return [job() for job in jobs]
            # OpenMP's limit holds for the thread that sets it, so that every worker sets it again
            with ThreadPoolExecutor(workers, initializer=_one_thread) as pool:
                futures = [pool.submit(job) for job in jobs]
                try:
                    return [future.result() for future in futures]
                except BaseException:
                    pool.shutdown(cancel_futures=True)
                    raise
    finally:
        torch.set_num_threads(threads)


def _one_thread() -> None:
    torch.set_num_threads(1)
    threadpool_limits(1, user_api="openmp")
