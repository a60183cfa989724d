"""Sinks hold what the study holds, read back by the libraries' own readers; writing twice changes nothing."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fedveil.attacks.judgement import AttackerFigures, Judgement
from fedveil.core.errors import InputError
from fedveil.core.figures import Estimate
from fedveil.core.files import plain
from fedveil.federation.utility import Utility
from fedveil.studies.model import CellFigures
from fedveil.studies.results import StudyResults, open_study
from fedveil.studies.sinks import SINKS, check_sinks, write_sinks
from fedveil.studies.sinks.figures import at_the_end, by_round, settings

ROUNDS = 3


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("a sink asked for the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def estimate(value: float) -> Estimate:
    return Estimate(value, value - 0.01, value + 0.02)


def attacker(name: str, value: float, validation: float) -> AttackerFigures:
    measures = ("balanced_accuracy", "accuracy", "auc", "advantage", "mutual_information_bits", "gap")
    figures = {measure: estimate(value + index / 100) for index, measure in enumerate(measures)}
    return AttackerFigures(name, **figures, validation_balanced_accuracy=validation)


def judgement(value: float) -> Judgement:
    return Judgement(
        attribute="sex (m/f)",
        classes=("f", "m"),
        n=(50, 20, 30),
        unlabelled=0,
        groups=None,
        prior=estimate(0.67),
        attackers=(attacker("boosting", value, value + 0.005),),
        mutual_information_bits=estimate(0.1),
        mutual_information_attacker="boosting",
        detectable_advantage=0.02,
        p_value=0.1,
        adjusted_p_value=0.1,
        confidence=0.95,
        seed=0,
    )


def write_cell(folder: Path, cell: dict[str, Any], value: float) -> None:
    home = folder / "cells" / cell["id"]
    home.mkdir(parents=True, exist_ok=True)
    figures = CellFigures(
        utility={"income": Utility("income", estimate(0.8), estimate(0.7), 0.75, {}, "mlp", 0.81, {"mlp": 0.81})},
        leakage={"sex (m/f)": judgement(value)},
        cotrained={"sex (m/f)": attacker("co-trained", 0.55, float("nan"))},
    )
    result = plain({"format": 1, "cell": cell, **figures.as_dict()})
    made_of = {
        "shared": {"data": {"source": "adult", "target": None}, "federation": {"devices": 20, "fraction": 0.5}},
        "method": {"name": cell["method"], "game": {"kind": "adversarial", "hidden": [64], "share_adversary": True}},
    }
    records = [
        {
            "stage": "main",
            "round": number + 1,
            "devices": 20,
            "silent": 0,
            "losses": {"encoder+head": 1 / (number + 1), "adversary": 0.7 if number else float("nan")},
            "validation": None if number == 1 else 0.5 - number / 10,
            "damage": {},
            "bytes_up": 1000 * (number + 1),
        }
        for number in range(ROUNDS)
    ]
    (home / "result.json").write_text(json.dumps(result))
    (home / "config.json").write_text(json.dumps({"cell": cell, "study": made_of}))
    (home / "metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))


@pytest.fixture
def study(tmp_path: Path) -> StudyResults:
    folder = tmp_path / "a study"
    cells = [
        {"id": "none-seed0-aa", "method": "none", "strength": None, "seed": 0},
        {"id": "adversarial-2-seed1-bb", "method": "adversarial", "strength": 2.0, "seed": 1},
        {"id": "adversarial-4-seed1-cc", "method": "adversarial", "strength": 4.0, "seed": 1},
    ]
    folder.mkdir()
    facts = {"format": 1, "name": "presets/adult", "study": {}, "version": "0", "cells": cells}
    (folder / "study.json").write_text(json.dumps(facts))
    for cell, value in zip(cells[:2], (0.8, 0.6), strict=True):  # the third is not finished
        write_cell(folder, cell, value)
    return open_study(folder)


def test_cells_are_logged_under_plain_names(study: StudyResults) -> None:
    cell = study.cells[1]
    assert settings(cell) == {
        "method": "adversarial",
        "strength": 2.0,
        "seed": 1,
        "method.name": "adversarial",
        "method.game.kind": "adversarial",
        "method.game.hidden": [64],
        "method.game.share_adversary": True,
        "shared.data.source": "adult",
        "shared.federation.devices": 20,
        "shared.federation.fraction": 0.5,
    }
    logged = list(by_round(cell))
    assert [(value, step) for name, value, step in logged if name == "loss/encoder+head"] == [
        (1, 1),
        (1 / 2, 2),
        (1 / 3, 3),
    ]
    assert [step for name, _, step in logged if name == "loss/adversary"] == [
        2,
        3,
    ]  # what is not a number is not logged
    assert [step for name, _, step in logged if name == "validation/loss"] == [1, 3]
    figures = at_the_end(cell)
    assert figures["leakage/sex (m_f)/balanced_accuracy"] == 0.6
    assert figures["leakage/sex (m_f)/balanced_accuracy_low"] == 0.59
    assert figures["cotrained/sex (m_f)/balanced_accuracy"] == 0.55
    assert figures["utility/income/accuracy_high"] == pytest.approx(0.82)
    assert "cotrained/sex (m_f)/validation_balanced_accuracy" not in figures


def test_tensorboard_reads_back_what_the_study_says(study: StudyResults) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.plugins.hparams import plugin_data_pb2

    for _ in range(2):
        write_sinks(["tensorboard"], study)
    home = study.folder / "tensorboard"
    assert sorted(path.name for path in home.iterdir()) == sorted(cell.id for cell in study.cells)
    for cell in study.cells:
        assert len(list((home / cell.id).iterdir())) == 1
        read = EventAccumulator(str(home / cell.id)).Reload()
        scalars = {(name, event.step): event.value for name in read.Tags()["scalars"] for event in read.Scalars(name)}
        expected = {(name, step): value for name, value, step in by_round(cell)}
        expected |= {(name, ROUNDS): value for name, value in at_the_end(cell).items()}
        assert scalars == pytest.approx(expected, rel=1e-6)
        content = read.SummaryMetadata("_hparams_/session_start_info").plugin_data.content
        started = plugin_data_pb2.HParamsPluginData.FromString(content).session_start_info.hparams
        assert started["method"].string_value == cell.method
        assert started["seed"].number_value == cell.seed
        assert started["method.game.share_adversary"].string_value == "True"
        assert ("strength" in started) == (cell.strength is not None)


def mlflow_runs(study: StudyResults, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, dict[str, Any]]:
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    from mlflow import MlflowClient

    client = MlflowClient((study.folder / "mlflow").as_uri())
    experiment = client.get_experiment_by_name(study.name)
    all_runs = client.search_runs([experiment.experiment_id])
    runs = {run.data.tags["fedveil.cell"]: run for run in all_runs}
    assert len(runs) == len(all_runs)
    return client, runs


def test_mlflow_reads_back_what_the_study_says(study: StudyResults, monkeypatch: pytest.MonkeyPatch) -> None:
    write_sinks(["mlflow"], study)
    client, runs = mlflow_runs(study, monkeypatch)
    assert set(runs) == {cell.id for cell in study.cells}
    for cell in study.cells:
        run = runs[cell.id]
        assert run.info.status == "FINISHED"
        assert run.data.params == {name: str(value) for name, value in settings(cell).items()}
        plain = str.maketrans("+()", "___")
        expected = {(name.translate(plain), step): value for name, value, step in by_round(cell)}
        expected |= {(name.translate(plain), ROUNDS): value for name, value in at_the_end(cell).items()}
        history = {
            (name, metric.step): metric.value
            for name in run.data.metrics
            for metric in client.get_metric_history(run.info.run_id, name)
        }
        assert history == expected
        assert [artifact.path for artifact in client.list_artifacts(run.info.run_id)] == ["result.json"]
        kept = Path(client.download_artifacts(run.info.run_id, "result.json")).read_bytes()
        assert kept == (cell.folder / "result.json").read_bytes()


def test_mlflow_written_again_changes_only_what_changed(study: StudyResults, monkeypatch: pytest.MonkeyPatch) -> None:
    write_sinks(["mlflow"], study)
    client, before = mlflow_runs(study, monkeypatch)
    client.set_tag(before["none-seed0-aa"].info.run_id, "note", "mine")
    write_sinks(["mlflow", "mlflow"], study)
    _, same = mlflow_runs(study, monkeypatch)
    assert {key: run.info.run_id for key, run in same.items()} == {key: run.info.run_id for key, run in before.items()}

    second, third = study.planned[1:]
    write_cell(study.folder, second.as_dict(), 0.65)  # computed again
    write_cell(study.folder, third.as_dict(), 0.55)  # finished since
    client.set_terminated(before["none-seed0-aa"].info.run_id)
    write_sinks(["mlflow"], open_study(study.folder))
    _, after = mlflow_runs(study, monkeypatch)
    assert set(after) == {cell.id for cell in study.planned}
    assert after["none-seed0-aa"].info.run_id == before["none-seed0-aa"].info.run_id
    assert after["none-seed0-aa"].data.tags["note"] == "mine"
    assert after[second.id].info.run_id != before[second.id].info.run_id
    assert after[second.id].data.metrics["leakage/sex _m_f_/balanced_accuracy"] == 0.65

    shutil.rmtree(study.folder / "cells" / second.id)  # no longer there
    client.update_run(after[third.id].info.run_id, status="RUNNING")  # stopped half-way
    write_sinks(["mlflow"], open_study(study.folder))
    _, last = mlflow_runs(study, monkeypatch)
    assert set(last) == {"none-seed0-aa", third.id}
    assert last[third.id].info.run_id != after[third.id].info.run_id


def test_mlflow_sends_no_telemetry(study: StudyResults) -> None:
    code = (
        "import os, sys; from fedveil.studies.results import open_study; "
        "from fedveil.studies.sinks import write_sinks; "
        "write_sinks(['mlflow'], open_study(sys.argv[1])); from mlflow.telemetry import get_telemetry_client; "
        "print(get_telemetry_client(), 'MLFLOW_ALLOW_FILE_STORE' in os.environ)"
    )
    command = [sys.executable, "-W", "error", "-c", code, str(study.folder)]
    # Without the variables by which MLflow notices that it is being tested, and keeps quiet of its own accord.
    quiet = subprocess.run(command, capture_output=True, text=True, check=True, env={"PATH": os.environ["PATH"]})
    assert quiet.stdout.split() == ["None", "False"]


def test_importing_sinks_loads_no_library() -> None:
    code = (
        "import sys, fedveil.studies.sinks as s; s.check_sinks(list(s.SINKS)); "
        "print([name for name in ('mlflow', 'tensorboard', 'torch') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_an_unknown_or_missing_sink_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="'tensorbord' is not known: did you mean 'tensorboard'"):
        check_sinks(["mlflow", "tensorbord"])
    for name in SINKS:
        monkeypatch.setattr("fedveil.studies.sinks.find_spec", lambda asked, name=name: None if asked == name else 1)
        with pytest.raises(InputError, match=rf"--sink {name}: .*pip install 'fedveil\[sinks\]'"):
            check_sinks(SINKS)


@pytest.mark.parametrize("name", SINKS)
def test_a_sink_that_fails_says_that_the_results_are_kept(name: str, study: StudyResults) -> None:
    write_sinks([name], study)
    kept = sorted(path.relative_to(study.folder) for path in study.folder.rglob("*") if path.is_file())
    (study.folder / "cells" / "none-seed0-aa" / "config.json").write_text(json.dumps({"study": {"method": 3}}))
    (study.folder / "cells" / "none-seed0-aa" / "result.json").touch()
    cells = open_study(study.folder).cells
    without = replace(cells[0].result, leakage={"sex": replace(judgement(0.8), attackers=())})
    broken = replace(study, cells=[replace(cells[0], result=without), *cells[1:]])
    shutil.rmtree(study.folder / "mlflow", ignore_errors=True)
    with pytest.raises(
        InputError, match=f"--sink {name}: cannot be written .*own results are in .*a study, untouched"
    ) as caught:
        write_sinks([name], broken)
    assert "\n" not in str(caught.value)
    if name == "tensorboard":  # the folder that was complete still is
        assert kept == sorted(path.relative_to(study.folder) for path in study.folder.rglob("*") if path.is_file())
