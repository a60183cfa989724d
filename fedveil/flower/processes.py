"""Start processes, and stop them by their ids together with everything that they started."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from fedveil.core.lifetime import end_with

StartTimes = dict[int, str]
"""Processes by id, each with its start time, since an id may have been reused for another process."""

_GRACE = 5.0
"""How many seconds a process has to end by itself after it was asked to."""


def start(command: Sequence[str], environment: Mapping[str, str], folder: Path, log: Path) -> subprocess.Popen[bytes]:
    """Start a process in a new session, with its output in a file; Ctrl-C reaches it only through `stop`.

    It also ends when this process ends, however that happens.
    """
    with log.open("wb") as output:
        return subprocess.Popen(  # noqa: S603 (our own command line, no shell)
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=dict(environment),
            cwd=folder,
            start_new_session=True,
            preexec_fn=end_with(os.getpid()),
        )


def stop(processes: Iterable[subprocess.Popen[bytes]]) -> None:
    """Ask the processes to end, then kill those that are left and everything that they started."""
    roots = list(processes)
    started = _descendants(roots)
    for root in roots:
        if root.poll() is None:
            root.terminate()
    end = time.monotonic() + _GRACE
    for root in roots:
        with suppress(subprocess.TimeoutExpired):
            root.wait(max(0.0, end - time.monotonic()))
    _kill(roots, started | _descendants(roots))


def kill(root: subprocess.Popen[bytes]) -> None:
    """Kill a process and everything that it started at once, as if the machine lost power."""
    _kill([root], _descendants([root]))


def _kill(roots: Sequence[subprocess.Popen[bytes]], started: StartTimes) -> None:
    for root in roots:
        if root.poll() is None:
            root.kill()
        root.wait()
    left = _alive(started)
    for pid in left:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    # A signal returns before the process has ended; its folder may be deleted next, so wait until it has.
    end = time.monotonic() + _GRACE
    while (left := _alive(left)) and time.monotonic() < end:
        time.sleep(0.05)


def _alive(started: StartTimes) -> StartTimes:
    running = {pid: since for pid, (_, since) in _snapshot().items()}
    return {pid: since for pid, since in started.items() if running.get(pid) == since}


def _descendants(roots: Sequence[subprocess.Popen[bytes]]) -> StartTimes:
    """Return all descendants of the processes: Flower's helpers have sessions of their own."""
    processes = _snapshot()
    descendants: StartTimes = {}
    parents = {root.pid for root in roots if root.poll() is None}
    while parents:
        children = {
            pid: since for pid, (parent, since) in processes.items() if parent in parents and pid not in descendants
        }
        descendants |= children
        parents = set(children)
    return descendants


def _snapshot() -> dict[int, tuple[int, str]]:
    """Return every process with its parent and its start time."""
    listed = subprocess.run(
        ["ps", "-A", "-o", "pid=,ppid=,state=,lstart="],  # noqa: S607 (the path of ps differs between systems)
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [line.split(None, 3) for line in listed.stdout.splitlines()]
    # A process that has ended, but that its parent has not waited for yet (Z), does not count.
    return {int(pid): (int(parent), since) for pid, parent, state, since in lines if not state.startswith("Z")}
