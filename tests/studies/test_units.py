"""Units of work: the same results in this process and in workers, even if one dies; a failed unit affects no other."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import small_parts

from fedveil.core.errors import InputError
from fedveil.studies import runner
from fedveil.studies.runner import Listener, keep_workers, run_units
from fedveil.studies.units import Unit, limited

MODES = pytest.mark.parametrize("workers", [0, 2], ids=["in-process", "workers"])


def units(function: str, *payloads: dict[str, Any], shares: str = "") -> list[Unit]:
    return [Unit(f"k{number}", f"small_parts:{function}", payload) for number, payload in enumerate(payloads)]


@MODES
def test_results_come_by_key_and_are_kept_as_soon_as_they_exist(tmp_path: Path, workers: int) -> None:
    kept: dict[str, Any] = {}
    heard: list[tuple[str, float, str]] = []
    finished: list[str] = []
    listener = Listener(
        progress=lambda unit, share, what: heard.append((unit.key, share, what)),
        finished=lambda unit: finished.append(unit.key),
    )
    outcome = run_units(
        units("measured", {"number": 3}, {"number": 1}),
        tmp_path,
        workers=workers,
        listener=listener,
        keep=lambda unit, result: kept.update({unit.key: result}),
    )
    assert {key: result["number"] for key, result in outcome.results.items()} == {"k0": 3, "k1": 1}
    assert {result["threads"] for result in outcome.results.values()} == {1}
    assert (os.getpid() in {result["process"] for result in outcome.results.values()}) == (workers == 0)
    assert kept == outcome.results
    assert sorted(heard) == [("k0", 0.5, "half"), ("k1", 0.5, "half")]
    assert sorted(finished) == ["k0", "k1"]


def test_bits_do_not_depend_on_where_units_are_computed(tmp_path: Path) -> None:
    warned: list[str] = []
    listener = Listener(warned=warned.append)
    asked = units("summed", {"seed": 1}, {"seed": 2}, {"seed": 3})
    serial, parallel = (run_units(asked, tmp_path, workers=count, listener=listener).results for count in (0, 2))
    assert serial == parallel
    assert serial["k0"]["3"] == [0.1, None]
    assert sorted(warned) == sorted(2 * ["seed 1", "seed 2", "seed 3"])


@MODES
def test_a_unit_that_fails_affects_no_other(tmp_path: Path, workers: int, capfd: pytest.CaptureFixture[str]) -> None:
    mixed = [*units("measured", {"number": 1}, {"number": -1}), Unit("bug", "small_parts:broken", {})]
    outcome = run_units(mixed, tmp_path, workers=workers)
    assert list(outcome.results) == ["k0"]
    assert outcome.failed["k1"] == "a part that cannot be measured"
    assert outcome.failed["bug"] == "ValueError: not\nthought of"


@MODES
def test_a_full_disk_stops_everything_in_one_line(tmp_path: Path, workers: int) -> None:
    with pytest.raises(InputError, match=r"cannot be written \(No space left on device: a-file\).*same command again"):
        run_units(units("broken", {"errno": errno.ENOSPC}), tmp_path, workers=workers)

    def keep(unit: Unit, result: Any) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    with pytest.raises(InputError, match="Read-only file system"):
        run_units(units("measured", {"number": 1}), tmp_path, workers=workers, keep=keep)
    outcome = run_units(units("broken", {"errno": errno.ENOENT}), tmp_path, workers=workers)
    assert outcome.failed == {"k0": "No such file or directory: a-file"}


@pytest.mark.parametrize("deaths", [1, 2])
def test_a_dead_worker_is_replaced_and_its_unit_tried_once_more(tmp_path: Path, deaths: int) -> None:
    (tmp_path / "deaths").write_text(str(deaths))
    warned: list[str] = []
    asked = [
        Unit("dying", "small_parts:dying", {"file": str(tmp_path / "deaths")}, "the weak one"),
        *units("measured", {"number": 1}),
    ]
    outcome = run_units(asked, tmp_path, workers=1, listener=Listener(warned=warned.append))
    assert outcome.results["k0"]["number"] == 1
    assert warned == ["the weak one: its worker died (signal 9); it is tried once more"]
    if deaths == 1:
        assert outcome.results["dying"] == {"alive": True}
    else:
        assert outcome.failed == {"dying": "its worker died 2 times (signal 9)"}


def test_units_that_share_a_set_up_run_in_one_worker(tmp_path: Path) -> None:
    asked = [
        Unit(f"{shares}{number}", "small_parts:measured", {"number": number}, shares=shares)
        for number in range(3)
        for shares in ("a", "b")
    ]
    results = run_units(asked, tmp_path, workers=2).results
    # A worker that finishes its own units early may help the other; it never begins with the other's.
    assert results["a0"]["process"] != results["b0"]["process"]
    assert results["a0"]["process"] == results["a1"]["process"]


def test_workers_are_kept_between_runs_only_where_that_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def process() -> int:
        number = run_units(units("measured", {"number": 1}), tmp_path, workers=1).results["k0"]["process"]
        return int(number)

    monkeypatch.setattr(runner, "_idle", None)  # tests keep workers as well
    with keep_workers():
        first = process()
        assert process() == first
        monkeypatch.setenv("FEDVEIL_CACHE", str(tmp_path))  # what a process takes over when it starts
        second = process()
        assert second != first
        os.kill(first, 0)  # it is alive
    for ended in (first, second):
        with pytest.raises(ProcessLookupError):
            os.kill(ended, 0)
    assert process() not in (first, second)


def test_running_in_this_process_restores_its_number_of_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    before = torch.get_num_threads()
    with limited(before + 1):
        assert torch.get_num_threads() == before + 1
        assert os.environ["OMP_NUM_THREADS"] == str(before + 1)
    assert torch.get_num_threads() == before
    assert os.environ["OMP_NUM_THREADS"] == "3"


def test_a_library_loaded_while_threads_are_limited_is_not_limited_afterwards() -> None:
    code = (
        "from fedveil.studies.units import limited\n"
        "with limited(1):\n    import torch\n    inside = torch.get_num_threads()\n"
        "print(inside, torch.get_num_threads())"
    )
    environment = {**os.environ, "OMP_NUM_THREADS": "3"}
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert ran.stdout.split() == ["1", "3"]


def test_a_worker_imports_no_more_than_a_task_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "light_task.py").write_text(
        "import sys\ndef heavy(payload, report):\n"
        "    return {'heavy': [name for name in ('torch', 'sklearn', 'pandas') if name in sys.modules]}\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    outcome = run_units([Unit("k", "light_task:heavy", {})], tmp_path, workers=1)
    assert outcome.results == {"k": {"heavy": []}}
    assert small_parts.__name__ in sys.modules
