"""Processes that end with whoever started them, however that ends."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable

_PARENT_DEATH_SIGNAL = 1
"""prctl's PR_SET_PDEATHSIG."""


def end_with(parent: int) -> Callable[[], None]:
    """Return what a process calls, as its first act, to end when its parent does: on Linux the kernel sees to it."""
    prctl = ctypes.CDLL(None, use_errno=True).prctl if sys.platform.startswith("linux") else None

    def ask() -> None:
        if prctl is not None:
            prctl(_PARENT_DEATH_SIGNAL, signal.SIGTERM)
            if os.getppid() != parent:  # it ended in between
                os._exit(1)

    return ask
