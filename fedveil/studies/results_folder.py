"""A directory of results, of a study or of an experiment: whose it is, who may write to it, what code computed it.

Every file is written under a temporary name, flushed to disk and renamed, so that a crash or a power cut leaves either
the old file or the new one whole.
"""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from filelock import FileLock, Timeout

from fedveil.core.errors import InputError

MARKS = {"study.json": "a study", "experiment.json": "an experiment"}
"""The file that says what a directory is for, and what the directory then holds."""


@dataclass(frozen=True)
class ComputedBy:
    """The code that computed a result; the digest is None if the result does not state it."""

    digest: str | None
    version: str | None = None
    revision: str | None = None

    def __str__(self) -> str:
        return f"fedveil {self.version} ({self.revision or 'revision unknown'})"


class ResultsFolder(ABC):
    """A directory of results: a file that says what it is for, and finished units of work by key."""

    mark: ClassVar[str]
    """The file, one of `MARKS`."""
    noun: ClassVar[str]
    """What it holds a number of, such as "cells"."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def begun(self) -> bool:
        """Whether the directory has been written to by a run of this sort."""
        return (self.folder / self.mark).exists()

    def check_place(self) -> None:
        """Refuse a path that is a file, or a directory with files that belong to something else."""
        if self.folder.exists() and not self.folder.is_dir():
            raise InputError(f"{self.folder}: is a file; name a directory with --out")
        refuse_marked(self.folder, MARKS.keys() - {self.mark})
        if self.begun or not self.folder.exists():
            return
        other_files = sorted(path.name for path in self.folder.iterdir() if path.name != ".lock")
        if other_files:
            what = MARKS[self.mark].partition(" ")[2]
            raise InputError(
                f"{self.folder}: holds other files ({other_files[0]}, …) and no {what}; name an empty directory with "
                "--out"
            )

    @contextmanager
    def writing(
        self, check: Callable[[], list[str]], warned: Callable[[str], None], *, fresh: bool = False
    ) -> Iterator[None]:
        """Check and lock the directory; if it cannot be written, one line says so.

        Args:
            check: refuses a directory that belongs to something else, and returns warnings about what it holds.
            warned: called with the first three warnings, and with how many others there are.
            fresh: discard the directory's results first.
        """
        try:
            self.check_place()  # before anything is written, the lock included
            if not fresh:
                check()
            with self._locked():
                if fresh:
                    self.discard()
                warnings = check()
                more = len(warnings) - 3
                for warning in warnings[:3] + ([f"… and {more} more {self.noun} of other code"] if more > 0 else []):
                    warned(warning)
                yield
        except OSError as fault:
            raise InputError(
                f"{fault.filename or self.folder}: cannot be written ({fault.strerror or fault}); finished {self.noun} "
                "are kept: make room or name another directory with --out, and run the same command again"
            ) from fault

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Lock the directory: a second run on it is refused. The lock of a killed process is released."""
        new = not self.folder.exists()
        self.folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(self.folder / ".lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            raise InputError(f"{self.folder}: another run is writing here; wait for it, or use --out") from None
        try:
            yield
        finally:
            lock.release()
            if new and not self.begun:  # refused before anything was written
                shutil.rmtree(self.folder, ignore_errors=True)

    @abstractmethod
    def discard(self) -> None:
        """Remove results, and nothing that fedveil did not write."""


def other_code(computed: Mapping[str, ComputedBy], digest: str) -> list[str]:
    """Return a warning for each finished unit, by name, that was not computed by the code with this digest."""
    return [
        f"{name}: was computed by other code, {code}, and is kept; --fresh computes it again"
        for name, code in computed.items()
        if code.digest != digest
    ]


def refuse_marked(folder: Path, marks: Collection[str] = MARKS.keys()) -> None:
    """Refuse a directory that holds a study or an experiment, as far as it has one of these marks."""
    for mark in marks:
        if (folder / mark).exists():
            raise InputError(f"{folder}: holds {MARKS[mark]}; name another directory with --out")
