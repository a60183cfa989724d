"""Studies as a person runs them: to the end, killed, continued, on a full disk, in the wrong directory."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
import pytest
from tiny_study import command, environment, fedveil_here, last_json, snapshot

Write = Callable[..., Path]


def one_line(done: subprocess.CompletedProcess[str], *messages: str) -> None:
    assert done.returncode == 2, done.stderr
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    assert len(lines) == 1, done.stderr
    assert "Traceback" not in done.stderr
    for words in messages:
        assert words in lines[0], lines[0]


def test_a_study_leaves_what_it_promises(undisturbed: Path) -> None:
    files = {path.name for path in undisturbed.iterdir()}
    assert {
        "study.json",
        "cells",
        "results.json",
        "results.csv",
        "results.parquet",
        "inputs-seed0.safetensors",
    } <= files
    cells = sorted((undisturbed / "cells").iterdir())
    assert len(cells) == 4
    for cell in cells:
        assert {path.name for path in cell.iterdir()} - {".lock"} == {
            "config.json",
            "draws.safetensors",
            "metrics.jsonl",
            "result.json",
            "sample.safetensors",
            "timing.json",
            "weights.safetensors",
        }
        config = json.loads((cell / "config.json").read_text())
        assert {"fedveil", "torch", "code"} <= set(config["versions"])
        rounds = [json.loads(line) for line in (cell / "metrics.jsonl").read_text().splitlines()]
        assert [record["round"] for record in rounds] == ([] if "drop" in cell.name else [1, 2, 3, 4, 5, 6])
    table = pd.read_csv(undisturbed / "results.csv")
    assert len(table) == 10  # an attacker, also taught by fresh people, in four cells, and the co-trained one of two
    assert not table.duplicated(["cell", "task", "attribute", "attacker", "attacker_name"]).any()
    pd.testing.assert_frame_equal(table, pd.read_parquet(undisturbed / "results.parquet"), check_dtype=False)


def test_the_same_command_computes_nothing_twice(undisturbed: Path, write_study: Write, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shutil.copytree(undisturbed, out)
    before = {path: path.stat().st_mtime_ns for path in (out / "cells").rglob("result.json")}
    done = fedveil_here("run", write_study(), "--out", out, "--json")
    assert done.returncode == 0, done.stderr
    assert "4 finished already" in done.stderr
    assert before == {path: path.stat().st_mtime_ns for path in (out / "cells").rglob("result.json")}
    result = last_json(done)
    keys = {"method", "strength", "task", "attribute", "attacker", "seeds", "utility", "leakage", "paper"}
    assert all(keys <= set(row) for row in result["rows"])
    assert [(row["method"], row["strength"], row["attacker"]) for row in result["rows"]] == [
        ("none", None, "retrained"),
        ("adversarial", 1, "retrained"),
        ("adversarial", 1, "cotrained"),
        ("adversarial", 4, "retrained"),
        ("adversarial", 4, "cotrained"),
        ("drop-columns", 1, "retrained"),
    ]
    for row in result["rows"]:
        assert row["leakage"]["balanced_accuracy"]["low"] <= row["leakage"]["balanced_accuracy"]["estimate"]


def test_more_seeds_and_strengths_extend_a_study(undisturbed: Path, write_study: Write, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shutil.copytree(undisturbed, out)
    before = snapshot(out / "cells")
    done = fedveil_here("run", write_study(), "--set", "methods.adversarial.strengths=[1, 4, 9]", "--out", out)
    assert done.returncode == 0, done.stderr
    after = snapshot(out / "cells")
    assert before.items() <= after.items()
    assert sum(name.endswith("result.json") for name in after) == 5


def killed_until_done(study: Path, out: Path, moments: Iterator[float], group: bool) -> int:
    """Start the command and kill -9 it after each moment; then let it end."""
    kills = 0
    for moment in moments:
        process = subprocess.Popen(
            command("run", study, "--out", out, "--workers", "2"),
            env=environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(moment)
            break
        if group:
            os.killpg(process.pid, signal.SIGKILL)  # the power cut
        else:
            process.kill()  # the parent alone: its workers must notice
        process.wait()
        kills += 1
    done = fedveil_here("run", study, "--out", out, "--workers", "2")
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return kills


@pytest.mark.parametrize("group", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["power-cut", "parent-only"])
def test_killed_at_random_moments_the_results_are_the_same_bits(
    undisturbed: Path, write_study: Write, tmp_path: Path, group: bool
) -> None:
    rng = random.Random(f"kill {group}")
    moments = (rng.uniform(4, 9) for _ in range(4))
    assert killed_until_done(write_study(), tmp_path / "out", moments, group)
    assert snapshot(tmp_path / "out") == snapshot(undisturbed)


@pytest.mark.slow
def test_killed_thirty_times(undisturbed: Path, write_study: Write, tmp_path: Path) -> None:
    rng = random.Random(7)
    for storm in range(5):
        out = tmp_path / f"out{storm}"
        moments = (rng.uniform(2, 10) for _ in range(6))
        killed_until_done(write_study(), out, moments, bool(storm % 2))
        assert snapshot(out) == snapshot(undisturbed)


def test_ctrl_c_stops_cleanly_and_the_same_command_goes_on(
    undisturbed: Path, write_study: Write, tmp_path: Path
) -> None:
    process = subprocess.Popen(
        command("run", write_study(), "--out", tmp_path / "out", "--workers", "1"),
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # A shell that runs the tests in the background may have made all children ignore Ctrl-C.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    deadline = time.monotonic() + 60
    while not (tmp_path / "out" / "cells").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(1)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert len(errors.splitlines()) == 1
    assert errors.startswith("fedveil: interrupted; ")
    assert "of 4 cells are finished, and the same command continues the study" in errors
    assert fedveil_here("run", write_study(), "--out", tmp_path / "out").returncode == 0
    assert snapshot(tmp_path / "out") == snapshot(undisturbed)


def test_a_second_run_on_one_directory_is_refused(write_study: Write, tmp_path: Path) -> None:
    from filelock import FileLock

    out = tmp_path / "out"
    study = write_study()
    out.mkdir()
    with FileLock(out / ".lock"):
        one_line(fedveil_here("run", study, "--out", out), "another run is writing here")


def test_a_directory_of_another_study_is_refused_with_what_differs(
    undisturbed: Path, write_study: Write, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    shutil.copytree(undisturbed, out)
    before = snapshot(out)
    study = write_study()
    one_line(
        fedveil_here("run", study, "--out", out, "--set", "federation.rounds=7"),
        "federation.rounds was 6, is 7",
        "--fresh",
    )
    one_line(fedveil_here("run", study, "--out", out, "--set", "name=other"), "name was 'tiny', is 'other'")
    one_line(fedveil_here("run", study, "--out", out, "--set", "data.options.seed_of_rotation=1"), "no option")
    facts = json.loads((out / "study.json").read_text())
    (out / "study.json").write_text(json.dumps({**facts, "format": 99, "version": "9.0"}))
    one_line(fedveil_here("run", study, "--out", out), "written in format 99 by fedveil 9.0")
    (out / "study.json").write_text("{")
    one_line(fedveil_here("run", study, "--out", out), "study.json: is damaged")
    (out / "study.json").write_text(json.dumps({**facts, "data": "0"}))
    one_line(fedveil_here("run", study, "--out", out), "the records of its data are different")
    assert snapshot(out) == before


def test_foreign_directories_are_refused_and_left_alone(write_study: Write, tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").write_text("meow")
    study = write_study()
    for fresh in ([], ["--fresh"]):
        one_line(fedveil_here("run", study, "--out", tmp_path / "photos", *fresh), "holds other files (cat.jpg")
        assert [path.name for path in (tmp_path / "photos").iterdir()] == ["cat.jpg"]
    one_line(fedveil_here("run", study, "--out", tmp_path / "photos" / "cat.jpg"), "is a file")


def test_fresh_discards_results_and_nothing_else(undisturbed: Path, write_study: Write, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shutil.copytree(undisturbed, out)
    (out / "notes.txt").write_text("mine")
    study = write_study()
    done = fedveil_here("run", study, "--out", out, "--fresh", "--set", "federation.rounds=2")
    assert done.returncode == 0, done.stderr
    assert (out / "notes.txt").read_text() == "mine"
    assert len(list((out / "cells").iterdir())) == 4
    assert all(len(path.read_text().splitlines()) in (0, 2) for path in out.rglob("metrics.jsonl"))


@pytest.mark.parametrize("harm", ["truncated", "noise", "missing"])
def test_a_corrupt_checkpoint_costs_its_cell_and_a_warning(
    undisturbed: Path, write_study: Write, tmp_path: Path, harm: str
) -> None:
    out = tmp_path / "out"
    shutil.copytree(undisturbed, out)
    cell = next(path for path in (out / "cells").iterdir() if path.name.startswith("adversarial-1-"))
    (cell / "result.json").unlink()
    (cell / "checkpoint").mkdir()
    (cell / "checkpoint" / "run.json").write_text('{"format": 1, "fingerprint": {}')
    state = {"truncated": b"\x10\0\0\0", "noise": os.urandom(500)}.get(harm)
    if state is not None:
        (cell / "checkpoint" / "state.safetensors").write_bytes(state)
    done = fedveil_here("run", write_study(), "--out", out)
    assert done.returncode == 0, done.stderr
    assert "checkpoint cannot be used" in done.stdout
    assert snapshot(out) == snapshot(undisturbed)


def test_a_damaged_result_is_computed_again_with_a_warning(
    undisturbed: Path, write_study: Write, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    shutil.copytree(undisturbed, out)
    cell = next(path for path in (out / "cells").iterdir() if path.name.startswith("none-"))
    text = (cell / "result.json").read_text()
    (cell / "result.json").write_text(text[: len(text) // 2])
    done = fedveil_here("run", write_study(), "--out", out)
    assert done.returncode == 0, done.stderr
    assert "its result is damaged" in done.stdout
    assert snapshot(out) == snapshot(undisturbed)


def test_a_cell_of_other_code_says_so_and_is_kept(undisturbed: Path, write_study: Write, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shutil.copytree(undisturbed, out)
    cell = next(path for path in (out / "cells").iterdir() if path.name.startswith("none-"))
    config = json.loads((cell / "config.json").read_text())
    config["versions"] |= {"code": "000000000000", "fedveil": "0.0.7"}
    (cell / "config.json").write_text(json.dumps(config))
    before = (cell / "result.json").stat().st_mtime_ns
    done = fedveil_here("run", write_study(), "--out", out)
    assert done.returncode == 0, done.stderr
    assert f"{cell.name}: was computed by other code, fedveil 0.0.7" in done.stdout
    assert (cell / "result.json").stat().st_mtime_ns == before


DYING = """
import os, signal
from dataclasses import dataclass
from pathlib import Path
from fedveil.games.undefended import Undefended

@dataclass(frozen=True)
class Theirs(Undefended):
    marker: str = ""
    def stages(self, shape):
        here = Path(self.marker)
        # The parent makes the game once, to check it; whoever else makes it is a worker.
        if os.environ["THE_PARENT"] != str(os.getpid()) and here.exists():
            left = int(here.read_text())
            if left:
                here.write_text(str(left - 1))
                os.kill(os.getpid(), signal.SIGKILL)
        return super().stages(shape)
"""


@pytest.mark.parametrize("deaths", [1, pytest.param(5, marks=pytest.mark.slow)])
def test_a_worker_that_dies_costs_one_more_try_and_nothing_else(
    write_study: Write,
    tmp_path: Path,
    third_party: Callable[[str, str], None],
    monkeypatch: pytest.MonkeyPatch,
    deaths: int,
) -> None:
    third_party("fedveil.games", DYING)
    marker = tmp_path / "deaths"
    marker.write_text(str(deaths))
    methods = [
        {"name": "dying", "game": {"kind": "theirs", "marker": str(marker)}},
        {"name": "none", "game": "undefended"},
    ]
    study = write_study(methods=methods, drop_columns=[1])
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("THE_PARENT", str(os.getpid()))
    done = fedveil_here("run", study, "--out", tmp_path / "out", "--workers", "1", "--json")
    result = last_json(done)
    assert "its worker died (signal 9); it is tried once more" in done.stderr
    if deaths == 1:
        assert done.returncode == 0, done.stderr
        assert {row["method"] for row in result["rows"]} == {"dying", "none", "drop-columns"}
        return
    assert done.returncode == 1
    assert "its worker died 2 times (signal 9" in done.stderr
    assert {row["method"] for row in result["rows"]} == {"none", "drop-columns"}
    assert result["complete"] is False
    assert "Traceback" not in done.stderr


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Return a disk of 100 kB; skip with a reason where this user may not mount one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=100k", "tmpfs", str(disk)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("this user may not mount a small disk")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def test_a_full_disk_stops_the_run_in_one_line_and_it_can_go_on(
    undisturbed: Path, write_study: Write, small_disk: Path
) -> None:
    study, out = write_study(), small_disk / "out"
    one_line(
        fedveil_here("run", study, "--out", out, "--workers", "1"), "No space left on device", "run the same command"
    )
    subprocess.run(["mount", "-o", "remount,size=50m", str(small_disk)], check=True)
    assert fedveil_here("run", study, "--out", out).returncode == 0
    assert snapshot(out) == snapshot(undisturbed)


def test_a_read_only_disk_is_reported_in_one_line(write_study: Write, small_disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    one_line(fedveil_here("run", write_study(), "--out", small_disk / "out"), "Read-only file system")


def test_the_number_of_workers_changes_no_bit(undisturbed: Path, write_study: Write, tmp_path: Path) -> None:
    done = fedveil_here("run", write_study(), "--out", tmp_path / "out", "--workers", "3")
    assert done.returncode == 0, done.stderr
    assert snapshot(tmp_path / "out") == snapshot(undisturbed)


def test_a_dry_run_writes_nothing(write_study: Write, tmp_path: Path) -> None:
    done = fedveil_here("run", write_study(), "--out", tmp_path / "out", "--dry-run", "--json")
    assert done.returncode == 0, done.stderr
    result = last_json(done)
    assert len(result["cells"]) == 4
    assert result["estimated_seconds"] > 0
    assert result["estimated_bytes"] > 0
    assert not (tmp_path / "out").exists()


def test_a_study_that_cannot_be_used_writes_nothing(write_study: Write, tmp_path: Path) -> None:
    bad = write_study("bad.yaml", sedes=[1])
    one_line(fedveil_here("run", bad, "--out", tmp_path / "out"), "unknown field 'sedes': did you mean 'seeds'?")
    one_line(fedveil_here("run", tmp_path / "none.yaml", "--out", tmp_path / "out"), "no such file")
    one_line(fedveil_here("run", write_study(), "--set", "seeds", "--out", tmp_path / "out"), "write key=value")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "lost",
    [("utility", "y", "balanced_accuracy"), ("leakage", "u", "worst"), ("leakage", "u", "prior"), ("utility", "y")],
)
def test_a_result_that_lacks_a_part_counts_as_damaged(undisturbed: Path, tmp_path: Path, lost: tuple[str, ...]) -> None:
    from fedveil.studies import open_study

    out = tmp_path / "out"
    shutil.copytree(undisturbed, out)
    path = next((out / "cells").glob("none-*")) / "result.json"
    result = json.loads(path.read_text())
    inner = result
    for step in lost[:-1]:
        inner = inner[step]
    del inner[lost[-1]]
    path.write_text(json.dumps(result))
    results = open_study(out)
    assert [cell for cell, _ in results.damaged] == [path.parent.name]
    assert {row["method"] for row in results.as_dict()["rows"]} == {"adversarial", "drop-columns"}
