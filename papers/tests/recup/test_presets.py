"""RecUP-FL's presets: each can be run, and small forms of them are measured, drawn and written down."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from fedveil_papers.cli import reproduce_preset
from fedveil_papers.kinds import make_experiment
from fedveil_papers.preset import SCALES, Preset, available, read_preset
from fedveil_papers.recup.convergence import Convergence
from recup_settings import CONVERGENCE, TRANSFER
from rich.console import Console


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", [name for name in available() if name.startswith("recup/")])
def test_every_preset_is_an_experiment_that_can_be_run(name: str, scale: str) -> None:
    preset = read_preset(name, scale)
    assert preset.experiment is not None
    assert preset.studies == []
    preset.experiment.check()
    parts = preset.experiment.parts()
    assert json.loads(json.dumps([part.unit.payload for part in parts])) == [part.unit.payload for part in parts]
    assert preset.title


def reproduced(settings: dict[str, Any], folder: Path) -> dict[str, Any]:
    preset = Preset("recup/tiny", "A tiny one", [], [], experiment=make_experiment(settings, "here"))
    console = Console(record=True, width=160)
    values = reproduce_preset(preset, "quick", folder, workers=0, console=console).values
    assert json.loads((folder / "reproduced.json").read_text("utf-8")) == values
    assert values["complete"]
    assert values["shows"]["picture"] == "tiny.png"
    assert (folder / "tiny.png").stat().st_size > 5000
    return values


@pytest.mark.slow
def test_convergence(tmp_path: Path) -> None:
    rows = reproduced(CONVERGENCE, tmp_path)["rows"]
    assert len(rows) == 6
    assert {row["more"]["aggregation"] for row in rows} == {"mean", "median"}
    bare = [row for row in rows if row["method"] == "no shield"]
    assert all(row["more"]["relative_l2"] == 0 for row in bare)
    assert all(row["utility"]["loss_kept"]["estimate"] == 1 for row in bare)
    assert any(row["more"]["relative_l2"] > 0 for row in rows)


def test_convergence_has_no_share_if_the_loss_rose_without_a_shield() -> None:
    experiment = make_experiment(CONVERGENCE, "here")
    assert isinstance(experiment, Convergence)
    losses = {"1": 0.65, "2": 0.67}
    figures = {"losses": losses, "reduction": -0.02, "clients": 5, "silent": 0, "relative_l2": 0.1}
    results = experiment.gather(defaultdict(lambda: figures), [])
    assert {run.kept for run in results.runs} == {None}
    assert {row.as_dict()["utility"]["loss_kept"] for row in experiment.rows(results)} == {None}
    console = Console(record=True, width=200)
    console.print(experiment.tables(results)[0])
    assert "–" in console.export_text()


@pytest.mark.slow
def test_transfer(tmp_path: Path) -> None:
    rows = reproduced(TRANSFER, tmp_path)["rows"]
    shares = {row["method"]: row["leakage"]["fooled"]["estimate"] for row in rows if row["attacker"] == "own zoo"}
    assert shares["meta"] >= shares["none"]
    cosines = [row["more"]["cosine"]["estimate"] for row in rows if row["method"] == "meta"]
    assert cosines
    assert all(-1 <= cosine <= 1 for cosine in cosines)
