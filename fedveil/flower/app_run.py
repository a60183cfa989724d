"""A run of a Flower app on a SuperLink: sent in with `flwr run`, followed to its end, its log kept."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fedveil.core.errors import InputError

_SHOWN = 12
"""How many of a log's last lines an error shows."""

Flwr = Callable[..., str]
"""Runs `flwr` with these arguments and returns what it printed."""


@dataclass(frozen=True)
class AppRun:
    """A run that has ended: its id, its state as `flwr list` tells it (finished:completed), and its log."""

    id: int
    status: str
    log: str

    @property
    def completed(self) -> bool:
        """Whether the app ran to its end without an error."""
        return self.status == "finished:completed"


@dataclass
class RunningApp:
    """A run that goes on, with the `flwr run --stream` that writes its log."""

    stream: subprocess.Popen[bytes]
    log_file: Path
    superlink: str
    flwr: Flwr

    @property
    def log(self) -> str:
        """What the ServerApp has said so far."""
        return read_log(self.log_file)

    @property
    def id(self) -> int | None:
        """The run's id; None while the SuperLink has not taken the app."""
        found = re.search(r"Successfully started run (\d+)", self.log)
        return int(found.group(1)) if found else None

    def wait_for(self, text: str, timeout: float) -> None:
        """Wait until the log says something, for steps that depend on how far the app is."""
        end = time.monotonic() + timeout
        while text not in self.log:
            if time.monotonic() > end or self.stream.poll() is not None:
                raise InputError(f"the app's log did not say {text!r} within {timeout:g} s; it ends: {tail(self.log)}")
            time.sleep(0.1)

    def wait(self, timeout: float, *, check: bool = True) -> AppRun:
        """Wait for the run's end; one that takes longer than `timeout` seconds is stopped, and refused.

        Args:
            timeout: in seconds.
            check: refuse a run that did not complete.
        """
        try:
            self.stream.wait(timeout)
        except subprocess.TimeoutExpired:
            self.stop()
            raise InputError(
                f"the Flower app did not end within {timeout:g} s and was stopped; its log ends: {tail(self.log)}"
            ) from None
        run = self.id
        if run is None:
            raise InputError(f"the SuperLink did not take the Flower app: {tail(self.log)}")
        ended = AppRun(run, self._status(run), self.log)
        if check and not ended.completed:
            raise InputError(f"the Flower app ended as {ended.status}; its log ends: {tail(ended.log)}")
        return ended

    def stop(self) -> None:
        """End the run on the SuperLink and stop following it."""
        if self.stream.poll() is None:
            self.stream.terminate()
            self.stream.wait()
        if self.id is not None:
            self.flwr("stop", str(self.id), self.superlink, "--format", "json")

    def _status(self, run: int) -> str:
        listed = json.loads(self.flwr("list", self.superlink, "--run-id", str(run), "--format", "json"))
        return str(listed["runs"][0]["status"])


def read_log(path: Path) -> str:
    """Return a log as plain text, without the colours of a terminal."""
    text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def tail(log: str) -> str:
    r"""Return a log's last lines as one.

    >>> tail("a\n\nb\n")
    'a | b'
    """
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    return " | ".join(lines[-_SHOWN:]) or "(nothing was said)"
