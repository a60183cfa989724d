"""One thread for each computation, also where several computations run in threads of their own.

Small steps gain nothing from more threads and lose much on a busy machine, and sums in a fixed order give the same
bits everywhere. The limits of BLAS and torch hold for the whole process, so computations in several threads share
them. The limit of OpenMP holds for one thread only, so every thread sets its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from threadpoolctl import ThreadpoolController

from fedveil.core.shared_context import SharedContext


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
