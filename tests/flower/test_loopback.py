"""Deployments on one machine: apps run, failures are reported in one line, and no process is left behind."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from fedveil.core.errors import InputError
from fedveil.flower.loopback import Loopback, RunningApp, tail

TINY = Path(__file__).parent / "apps" / "tiny"


def _mentions(folder: Path) -> list[str]:
    """Return the command lines of processes whose FLWR_HOME lies in the folder."""
    command_lines = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            environment = (process / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if any(entry.startswith(f"FLWR_HOME={folder}".encode()) for entry in environment):
            command_lines.append((process / "cmdline").read_text())
    return command_lines


def _use_and_give_up(loopback: Loopback) -> None:
    with loopback:
        assert loopback.started[0].id is not None
        run = loopback.run_app(TINY, {"num-server-rounds": 1, "min-nodes": 1}, timeout=200)
        assert run.completed
        assert "the mean is [2.0, 2.0, 2.0]" in run.log
        with pytest.raises(InputError, match=r"ended as finished:failed; its log ends: .*told to fail"):
            loopback.run_app(TINY, {"fail": True}, timeout=200)
        # A run that is too slow is stopped, and the processes with it.
        with pytest.raises(InputError, match=r"did not end within 0\.1 s"):
            loopback.run_app(TINY, timeout=0.1)
        with pytest.raises(InputError, match=r"no pyproject\.toml"):
            loopback.run_app(loopback.folder / "nowhere")
        if os.path.isdir("/proc"):
            assert any("flower-superexec" in line for line in _mentions(loopback.folder))
        raise RuntimeError("the body gave up")


def test_an_app_runs_a_failing_one_is_reported_and_nothing_is_left_when_the_body_raises(tmp_path: Path) -> None:
    loopback = Loopback(tmp_path, nodes=[{"partition-id": 1}])
    with pytest.raises(RuntimeError, match="the body gave up"):
        _use_and_give_up(loopback)
    assert loopback.started[0].process.poll() is not None
    if os.path.isdir("/proc"):
        assert _mentions(tmp_path) == []


def test_a_superlink_that_cannot_start_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import socket

    with socket.socket() as busy_socket:
        busy_socket.bind(("127.0.0.1", 0))
        busy_socket.listen()
        monkeypatch.setattr("fedveil.flower.loopback._free_port", lambda: busy_socket.getsockname()[1])
        monkeypatch.setattr("fedveil.flower.loopback._ATTEMPTS", 1)
        with pytest.raises(InputError, match="SuperLink did not start"), Loopback(tmp_path):
            pass


def test_without_flower_the_line_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedveil.flower.loopback.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"pip install 'fedveil\[flower\]'"):
        Loopback(tmp_path)


def test_an_app_that_was_not_accepted_shows_the_end_of_the_log(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_text("\x1b[91mno such SuperLink\x1b[0m\n")
    ended = subprocess.Popen(["true"])
    with pytest.raises(InputError, match="did not accept the Flower app: no such SuperLink"):
        RunningApp(ended, log, "loopback", lambda *_: "").wait(10)
    assert tail("\n".join(str(line) for line in range(20))).startswith("8 | 9")
