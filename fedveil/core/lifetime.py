"""Processes that end when the process that started them ends, whatever the cause."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable

_PARENT_DEATH_SIGNAL = 1
"""prctl's PR_SET_PDEATHSIG."""


def end_with(parent: int) -> Callable[[], None]:
    """Return a function that a child process calls first, so that it ends when its parent does.

    On Linux the kernel then sends SIGTERM to the child when the parent ends; elsewhere the function does nothing.
    """
    prctl = ctypes.CDLL(None, use_errno=True).prctl if sys.platform.startswith("linux") else None

    def request_signal() -> None:
        if prctl is not None:
            prctl(_PARENT_DEATH_SIGNAL, signal.SIGTERM)
            if os.getppid() != parent:  # the parent ended before the request
                os._exit(1)

    return request_signal
