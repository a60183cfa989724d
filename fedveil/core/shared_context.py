"""A context of the whole process that several threads may be in at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager


class SharedContext:
    """Enter a context when the first thread enters, and leave it when the last one leaves.

    Contexts that change something global, such as filters of warnings or limits of threads, restore what they saw when
    they were entered: if two threads overlap, the one that leaves last would restore the other's change.
    """

    def __init__(self, make: Callable[[], AbstractContextManager[object]]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._inside = 0
        self._context: AbstractContextManager[object] | None = None

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._context = self._make()
                self._context.__enter__()
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                assert self._context is not None
                self._context.__exit__(None, None, None)
                self._context = None
