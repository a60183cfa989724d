"""Units of work: a function, named by its module, that turns JSON values into a JSON result in any process.

A study's cells and the papers' measurements are units; `fedveil.studies.runner` deals them to processes.
"""

from __future__ import annotations

import errno
import json
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from fedveil.core.errors import InputError
from fedveil.core.files import plain

NO_ROOM = (errno.ENOSPC, errno.EROFS, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EIO, errno.EFBIG)
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
"""What numerical libraries read when they are loaded."""


@dataclass(frozen=True, eq=False)
class Unit:
    """A unit of work: its result depends on the task and the payload alone, never on where or when it is computed.

    Attributes:
        key: identifies it among the units of a run.
        task: the function, as "package.module:function". It is called as `function(payload, report)` and returns a
            JSON value, or None if it has written its result to files.
        payload: JSON values.
        name: what people read while it is computed; default: the key.
        shares: units with the same value share a set-up that the task's module caches in its process, so one worker
            computes them one after another if possible. Empty: nothing is shared.
    """

    key: str
    task: str
    payload: Mapping[str, Any]
    name: str = ""
    shares: str = ""

    def __str__(self) -> str:
        return self.name or self.key


@dataclass(frozen=True)
class Report:
    """How a task reports while it computes; `Report()` reports to nobody."""

    send: Callable[[str, Any], None] = field(default=lambda kind, value: None)

    def progress(self, share: float, what: str) -> None:
        """Report that this share of the unit is computed, and what is done now."""
        self.send("progress", (share, what))

    def warning(self, text: str) -> None:
        """Report something that people should know; the computation goes on."""
        self.send("warning", text)


def compute(task: str, payload: Mapping[str, Any], threads: int, report: Report) -> tuple[str, Any]:
    """Call a task and return how it ended: ("done", result), ("failed", why) or, if a disk is full, ("disk", why).

    The result is the same in every process: JSON values, with null for a figure that is not a number.
    """
    try:
        module, _, name = task.partition(":")
        function = getattr(import_module(module), name)
        with limited(threads):
            result = function(payload, report)
        return "done", json.loads(json.dumps(plain(result)))
    except InputError as fault:
        return "failed", str(fault)
    except OSError as fault:
        why = f"{fault.strerror or fault}{f': {fault.filename}' if fault.filename else ''}"
        # Some libraries report a full disk without an error number; a timeout of a lock has no number either.
        full = fault.errno in NO_ROOM or (fault.errno is None and not isinstance(fault, TimeoutError))
        return "disk" if full else "failed", why
    except Exception as fault:
        traceback.print_exc()
        return "failed", f"{type(fault).__name__}: {fault}"


@contextmanager
def limited(threads: int) -> Iterator[None]:
    """Let numerical libraries use this many threads in this block: the last bits of sums depend on the number."""
    from threadpoolctl import threadpool_limits

    before = {name: os.environ.get(name) for name in THREAD_VARIABLES}
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, str(threads)))  # for libraries that are loaded in the block
    torch = sys.modules.get("torch")
    threads_of_torch = None if torch is None else torch.get_num_threads()
    try:
        with threadpool_limits(threads):
            if torch is not None:
                torch.set_num_threads(threads)
            yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        torch = sys.modules.get("torch")  # it may have been loaded in the block, with this block's number of threads
        if torch is not None:
            torch.set_num_threads(threads_of_torch or _default_threads())


def _default_threads() -> int:
    """Return how many threads numerical libraries use if nobody limits them: OMP_NUM_THREADS, or one for each core."""
    number = os.environ.get("OMP_NUM_THREADS", "")
    return int(number) if number.isdigit() and int(number) else os.cpu_count() or 1
