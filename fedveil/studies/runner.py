"""Cells dealt out to worker processes; one that dies is replaced, and its cell tried once more."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from fedveil.config.cells import Cell
from fedveil.config.study import Method, Study
from fedveil.core.errors import InputError

ATTEMPTS = 2


@dataclass(frozen=True)
class Job:
    """A cell to compute, and where."""

    cell: Cell
    method: Method
    folder: Path


@dataclass
class Listener:
    """Who is told what happens; every function may be replaced."""

    progress: Callable[[Cell, float, str], None] = lambda cell, share, what: None
    finished: Callable[[Cell], None] = lambda cell: None
    warned: Callable[[str], None] = lambda text: None


@dataclass
class Outcome:
    """Cells that could not be computed, and why."""

    failed: dict[str, str] = field(default_factory=dict)


class _Worker:
    """One process, the thread that hears it, and the job it has in hand."""

    def __init__(self, number: int, threads: int, heard: queue.SimpleQueue[tuple[_Worker, list[Any] | None]]) -> None:
        self.number = number
        self.job: Job | None = None
        self.errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (it lives as long as the process)
        limits = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(threads))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "fedveil.studies.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            encoding="utf-8",
            env={**os.environ, **limits},
        )
        threading.Thread(target=self._hear, args=(heard,), daemon=True).start()

    def _hear(self, heard: queue.SimpleQueue[tuple[_Worker, list[Any] | None]]) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                with suppress(ValueError):  # a line cut off by a death: the end of the stream says the rest
                    heard.put((self, json.loads(line)))
        self.process.wait()
        heard.put((self, None))

    def take(self, job: Job, study: Study) -> None:
        """Hand over a job."""
        self.job = job
        told = {
            "study": study.model_dump(mode="json"),
            "method": job.method.model_dump(mode="json"),
            "cell": job.cell.as_dict(),
            "folder": str(job.folder),
        }
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # it has died: the end of its stream tells
            self.process.stdin.write(json.dumps(told) + "\n")
            self.process.stdin.flush()

    def last_words(self) -> str:
        """Return the last line of what it wrote to stderr."""
        self.errors.seek(0)
        lines = self.errors.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else ""

    def end(self) -> None:
        """Stop the process and let go of what belongs to it."""
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.errors):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()


def run_jobs(study: Study, jobs: Sequence[Job], workers: int, listener: Listener) -> Outcome:
    """Compute all jobs; whatever stops this, finished cells stay, and running ones continue from their checkpoints."""
    waiting, attempts = list(jobs), dict.fromkeys((job.cell.id for job in jobs), 0)
    heard: queue.SimpleQueue[tuple[_Worker, list[Any] | None]] = queue.SimpleQueue()
    outcome = Outcome()
    staff = [_Worker(number, study.threads, heard) for number in range(min(workers, len(waiting)))]
    try:
        for worker in staff:
            _next(worker, waiting, attempts, study)
        while any(worker.job for worker in staff):
            worker, said = heard.get()
            if worker not in staff or worker.job is None:
                continue
            if said is None:
                place = staff.index(worker)
                staff[place] = replaced = _after_death(worker, waiting, attempts, outcome, listener, study, heard)
                _next(replaced, waiting, attempts, study)
                continue
            kind, value = said
            if kind == "progress":
                listener.progress(worker.job.cell, *value)
            elif kind == "warning":
                listener.warned(value)
            elif kind == "disk":
                raise InputError(
                    f"{worker.job.folder}: cannot be written ({value}); finished cells are kept: make room or name "
                    "another directory, and run the same command again"
                )
            else:
                if kind == "failed":
                    outcome.failed[worker.job.cell.id] = value
                else:
                    listener.finished(worker.job.cell)
                _next(worker, waiting, attempts, study)
    finally:
        for worker in staff:
            worker.end()
    return outcome


def _next(worker: _Worker, waiting: list[Job], attempts: dict[str, int], study: Study) -> None:
    worker.job = None
    if waiting:
        job = waiting.pop(0)
        attempts[job.cell.id] += 1
        worker.take(job, study)


def _after_death(
    worker: _Worker,
    waiting: list[Job],
    attempts: dict[str, int],
    outcome: Outcome,
    listener: Listener,
    study: Study,
    heard: queue.SimpleQueue[tuple[_Worker, list[Any] | None]],
) -> _Worker:
    """Replace a dead worker; put its cell back once, and report it the second time."""
    assert worker.job is not None
    job, code = worker.job, worker.process.returncode
    how = f"signal {-code}" if code < 0 else f"exit code {code}"
    words = worker.last_words()
    worker.end()
    if attempts[job.cell.id] < ATTEMPTS:
        listener.warned(f"{job.cell.id}: its worker died ({how}); the cell is tried once more")
        waiting.insert(0, job)
    else:
        outcome.failed[job.cell.id] = f"its worker died {ATTEMPTS} times ({how}{f': {words}' if words else ''})"
    return _Worker(worker.number, study.threads, heard)
