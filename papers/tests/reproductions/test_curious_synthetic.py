"""The preset curious/synthetic, small: measured, kept, laid out, drawn; bad settings are told before anything runs."""

import json

import pytest
from fedveil_papers import Kept, make_experiment
from fedveil_papers.cli import run_experiment
from fedveil_papers.curious_synthetic_layout import over_runs
from fedveil_papers.preset import SCALES, Preset, read_preset
from rich.console import Console

from fedveil.core.errors import InputError

SMALL = {
    "kind": "curious-synthetic",
    "runs": 2,
    "train": 600,
    "validation": 300,
    "test": 800,
    "margins": [0.1],
    "convex_margins": [0.6],
    "betas": [0.0, 0.2],
    "ridges": [0.1],
    "panel": "rbf-svm",
}
PAPER = [{"release": "hard mixture", "honesty": 1.0, "curiosity": 1.0}, {"note": "printed"}]


def made(**changes):
    return make_experiment({**SMALL, **changes}, "preset x: experiment")


@pytest.mark.parametrize("scale", SCALES)
def test_the_preset_can_be_run(scale):
    preset = read_preset("curious/synthetic", scale)
    preset.experiment.check()
    assert preset.experiment.runs == {"quick": 1, "paper": 5}[scale]


def test_it_is_measured_kept_laid_out_and_drawn(tmp_path):
    preset = Preset("curious/tiny", "A tiny one", [], PAPER, experiment=made())
    console = Console(record=True, width=240)
    run_experiment(preset, "quick", tmp_path, fresh=False, json=False, console=console)
    shown = json.loads((tmp_path / "reproduced.json").read_text("utf-8"))["shows"]
    assert (tmp_path / shown["picture"]).stat().st_size > 20_000
    standard, hard, normal = shown["mixtures"]
    assert hard["honesty"]["estimate"] == 1
    assert hard["curiosity"]["estimate"] == 1
    assert hard["retrained"]["estimate"] > 0.99
    assert standard["retrained"]["estimate"] < 0.56
    assert 0.8 < normal["curiosity"]["estimate"] < 1
    assert normal["curiosity"]["low"] < normal["curiosity"]["estimate"] < normal["curiosity"]["high"]
    assert normal["curiosity"]["deviation"] > 0
    plain, curious = shown["convex"]
    assert plain["intervals"]["estimate"] < 0.56
    for row in (plain, curious):
        assert row["honesty"]["estimate"] + row["curiosity"]["estimate"] <= row["ceiling"] + 1e-9
    assert curious["honesty"]["estimate"] + curious["intervals"]["estimate"] > 1.95
    assert [row["agreement"] for row in shown["near"]] == [0.5, 0.5, 0.5, 0.75, 1.0]
    assert all(row["distance"] <= row["gap_bound"] + 1e-6 for row in shown["near"])
    text = console.export_text()
    assert "prior" in text
    assert "printed" in text
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "parts").iterdir()}
    again = preset.experiment.run(Kept(tmp_path), lambda _: None, PAPER)
    assert again["mixtures"] == shown["mixtures"]
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "parts").iterdir()} == before


def test_runs_are_joined_by_mean_deviation_and_widest_interval():
    runs = [
        [{"name": "a", "share": {"estimate": point, "low": point - 0.1, "high": point + 0.1}, "plain": point}]
        for point in (0.4, 0.6)
    ]
    (row,) = over_runs(runs)
    assert row["name"] == "a"
    assert row["plain"] == pytest.approx(0.5)
    assert row["share"] == pytest.approx({"estimate": 0.5, "low": 0.3, "high": 0.7, "deviation": 0.02**0.5})


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"runs": 0}, "at least 1 run"),
        ({"margins": [1.2]}, "margin must lie in"),
        ({"betas": [-0.1]}, "betas must lie in"),
        ({"ridges": [0.0]}, "above 0"),
        ({"beta_y": 0.4}, "beta_y"),
        ({"threshold": 0.7}, "threshold"),
        ({"panel": "forrest"}, "did you mean 'forest'"),
    ],
)
def test_bad_settings_are_told_in_a_line(changes, said):
    with pytest.raises(InputError, match=said):
        made(**changes).check()
