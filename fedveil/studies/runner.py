"""Deal units to worker processes; a worker that dies is replaced, and its unit is tried once more."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from fedveil.core.errors import InputError
from fedveil.studies.units import THREAD_VARIABLES, Report, Unit, compute

ATTEMPTS = 2


@dataclass
class Listener:
    """Functions that are called while units are computed; each of them may be replaced."""

    progress: Callable[[Unit, float, str], None] = lambda unit, share, what: None
    finished: Callable[[Unit], None] = lambda unit: None
    warned: Callable[[str], None] = lambda text: None


@dataclass
class Outcome:
    """Results by the units' keys, and why others could not be computed."""

    results: dict[str, Any] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)


def worker_count(workers: int | None) -> int:
    """Return the number of processes; by default, one per core."""
    return (os.cpu_count() or 1) if workers is None else workers


def run_units(
    units: Sequence[Unit],
    folder: Path,
    *,
    workers: int | None = None,
    threads: int = 1,
    listener: Listener | None = None,
    keep: Callable[[Unit, Any], None] | None = None,
) -> Outcome:
    """Compute all units. Finished units are kept whatever stops this; results do not depend on the number of workers.

    Args:
        units: what to compute; keys must be unique.
        folder: where results are written, by the tasks or by `keep`; a full disk stops everything with one line.
        workers: how many processes compute at the same time; 0: this process computes all units, one after another.
            Default: one per core.
        threads: the number of threads of each process.
        listener: called as units are computed.
        keep: called in this process with each finished unit and its result, to write it down.
    """
    run = _Run(list(units), folder, threads, listener or Listener(), keep)
    count = min(worker_count(workers), len(run.waiting))
    if count:
        _in_workers(run, count)
    else:
        _in_this_process(run)
    return run.outcome


@contextmanager
def keep_workers() -> Iterator[None]:
    """Keep workers alive between calls of `run_units` in this block, so that they import everything only once."""
    global _idle
    if _idle is not None:
        yield
        return
    _idle = []
    try:
        yield
    finally:
        idle, _idle = _idle, None
        for worker in idle:
            worker.end()


_idle: list[_Worker] | None = None
"""Workers without a unit, inside `keep_workers`; None outside it."""


@dataclass
class _Run:
    """The state of one call: which units wait, how often each was tried, and how they ended."""

    waiting: list[Unit]
    folder: Path
    threads: int
    listener: Listener
    keep: Callable[[Unit, Any], None] | None
    outcome: Outcome = field(default_factory=Outcome)
    attempts: dict[str, int] = field(default_factory=dict)

    def report(self, unit: Unit, kind: str, value: Any) -> None:
        """Pass on what a task reports while it computes."""
        if kind == "progress":
            self.listener.progress(unit, *value)
        else:
            self.listener.warned(value)

    def end(self, unit: Unit, kind: str, value: Any) -> None:
        """Note how a unit ended; a full disk ends everything."""
        if kind == "failed":
            self.outcome.failed[unit.key] = value
            return
        if kind == "done" and self.keep is not None:
            try:
                self.keep(unit, value)
            except OSError as fault:
                kind, value = "disk", f"{fault.strerror or fault}"
        if kind == "disk":
            raise InputError(
                f"{self.folder}: cannot be written ({value}); finished results are kept: make room or name another "
                "directory with --out, and run the same command again"
            )
        self.outcome.results[unit.key] = value
        self.listener.finished(unit)


def _in_this_process(run: _Run) -> None:
    while run.waiting:
        unit = run.waiting.pop(0)
        report = Report(lambda kind, value, unit=unit: run.report(unit, kind, value))  # type: ignore[misc]
        run.end(unit, *compute(unit.task, unit.payload, run.threads, report))


def _in_workers(run: _Run, count: int) -> None:
    messages: _Messages = queue.SimpleQueue()
    workers = [_idle_or_new_worker(run.threads, messages) for _ in range(count)]
    try:
        for worker in workers:
            _next(run, worker, workers)
        while any(worker.unit for worker in workers):
            worker, message = messages.get()
            if worker not in workers or worker.unit is None:
                continue
            if message is None:
                _after_death(run, worker)
                index = workers.index(worker)
                workers[index] = _Worker(run.threads, messages)
                _next(run, workers[index], workers)
                continue
            kind, value = message
            if kind in ("progress", "warning"):
                run.report(worker.unit, kind, value)
            else:
                run.end(worker.unit, kind, value)
                _next(run, worker, workers)
    finally:
        for worker in workers:
            _dismiss(worker)


def _next(run: _Run, worker: _Worker, workers: Sequence[_Worker]) -> None:
    """Give a worker its next unit: one whose set-up it has, else one whose set-up no other has, else the first."""
    worker.unit = None
    if not run.waiting:
        return
    elsewhere = {other.shares for other in workers if other is not worker} - {""}
    fitting = [unit for unit in run.waiting if unit.shares and unit.shares == worker.shares]
    fitting += [unit for unit in run.waiting if unit.shares not in elsewhere]
    unit = (fitting or run.waiting)[0]
    run.waiting.remove(unit)
    run.attempts[unit.key] = run.attempts.get(unit.key, 0) + 1
    worker.take(unit)


def _after_death(run: _Run, worker: _Worker) -> None:
    """Put a dead worker's unit back once, and note the failure the second time."""
    assert worker.unit is not None
    unit, code = worker.unit, worker.process.wait()
    how = f"signal {-code}" if code < 0 else f"exit code {code}"
    error = worker.last_error_line()
    worker.end()
    if run.attempts[unit.key] < ATTEMPTS:
        run.listener.warned(f"{unit}: its worker died ({how}); it is tried once more")
        run.waiting.insert(0, unit)
    else:
        run.outcome.failed[unit.key] = f"its worker died {ATTEMPTS} times ({how}{f': {error}' if error else ''})"


class _Worker:
    """One process, the thread that reads its messages, and the unit it is computing."""

    def __init__(self, threads: int, messages: _Messages) -> None:
        self.unit: Unit | None = None
        self.shares = ""
        self.threads = threads
        self.messages = messages
        self.inherited = _inherited(threads)
        self.errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (it lives as long as the process)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "fedveil.studies.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            encoding="utf-8",
            env={**os.environ, **dict.fromkeys(THREAD_VARIABLES, str(threads))},
        )
        self._write([entry or os.getcwd() for entry in sys.path])
        threading.Thread(target=self._read_messages, daemon=True).start()

    def _read_messages(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                with suppress(ValueError):  # a line that was cut off when the process died, which is reported below
                    self.messages.put((self, json.loads(line)))
        self.process.wait()
        self.messages.put((self, None))

    def take(self, unit: Unit) -> None:
        """Send a unit to the process, which computes it."""
        self.unit, self.shares = unit, unit.shares
        self._write({"task": unit.task, "payload": unit.payload, "threads": self.threads})

    def _write(self, value: Any) -> None:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(value) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            self.messages.put((self, None))  # it has died, perhaps before anybody listened

    def last_error_line(self) -> str:
        """Return the last line of what it wrote to stderr."""
        self.errors.seek(0)
        lines = self.errors.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else ""

    def end(self) -> None:
        """Stop the process and close its streams."""
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.errors):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()


_Messages = queue.SimpleQueue[tuple[_Worker, list[Any] | None]]
"""Messages from workers; None: the worker has died."""


def _inherited(threads: int) -> tuple[Any, ...]:
    """Return what a process inherits when it starts; an idle worker is used again only if all of it is unchanged."""
    variables = sorted((name, value) for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST")
    return threads, tuple(sys.path), os.getcwd(), tuple(variables)


def _idle_or_new_worker(threads: int, messages: _Messages) -> _Worker:
    """Return an idle worker that inherited the same, or a new one."""
    for worker in _idle or []:
        if worker.inherited == _inherited(threads) and worker.process.poll() is None:
            _idle.remove(worker)  # type: ignore[union-attr]
            worker.messages = messages
            return worker
    return _Worker(threads, messages)


def _dismiss(worker: _Worker) -> None:
    """End a worker or, inside `keep_workers`, keep it if it is idle."""
    if _idle is None or worker.unit is not None or worker.process.poll() is not None:
        worker.end()
        return
    _idle.append(worker)
    while len(_idle) > worker_count(None):
        _idle.pop(0).end()
