"""Experiments: presets that are no studies are checked, run, kept part by part, and laid out."""

import json
from pathlib import Path

import pytest
from fedveil_papers import EXPERIMENTS, Kept, make_experiment
from fedveil_papers.cli import run_experiment
from fedveil_papers.preset import SCALES, Preset, available, read_preset
from rich.console import Console

from fedveil.core.errors import InputError

PEOPLE = {"train": 300, "validation": 150, "test": 200}
CURVES = {
    "kind": "update-curves",
    "cases": [{"name": "small", "source": "adult", "attributes": ["sex"], "rounds": [1, 2], "people": PEOPLE}],
    "methods": [
        {"name": "sparsify", "shield": {"kind": "sparsify"}, "setting": "p", "norms": [0.3, 9.0], "span": [0.0, 0.99]},
        {
            "name": "recup",
            "shield": {"kind": "recup"},
            "setting": "epsilon",
            "values": [0.001],
            "zoo": {"members": 2, "widths": [128, 128]},
        },
    ],
    "static": [["max", "logistic"]],
    "adaptive": [["recovered", "logistic"]],
    "pool": [["recovered", "logistic"]],
    "draws": 100,
}
CONVERGENCE = {
    "kind": "convergence",
    "case": {
        "source": "adult",
        "attributes": ["sex", "race"],
        "rounds": [1],
        "length": 3,
        "people": PEOPLE,
        "settings": {"records": 2, "together": "sex"},
    },
    "methods": [CURVES["methods"][1]],
    "participation": [0.5, 1.0],
    "aggregations": ["mean", "median"],
    "every": 1,
}
TRANSFER = {
    "kind": "transfer",
    "case": CURVES["cases"][0],
    "clients": 40,
    "zoo": {"members": 5, "widths": [128] * 5},
}


def made(told: dict) -> object:
    return make_experiment(told, "preset x: experiment")


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", [name for name in available() if name.startswith("recup/")])
def test_every_preset_of_recup_is_an_experiment_that_can_be_run(name, scale):
    preset = read_preset(name, scale)
    assert preset.experiment is not None
    assert preset.studies == []
    preset.experiment.check()
    assert preset.title


def test_curves_are_measured_kept_and_laid_out(tmp_path):
    experiment, said = made(CURVES), []
    found = experiment.run(Kept(tmp_path), said.append, [{"note": "printed"}])
    points = found["panels"][0]["points"]
    assert [point["method"] for point in points] == ["no shield", "sparsify", "sparsify", "recup"]
    assert points[2]["unreachable"]
    assert points[1]["damage"]["1"]["relative_l2"] == pytest.approx(0.3, rel=0.15)
    assert points[3]["settings"]["zoos"]["sex"]["members"] == 2
    assert {row["mode"] for row in points[1]["rows"]} == {"static", "retrained", "pooled"}
    again: list[str] = []
    assert experiment.run(Kept(tmp_path), again.append, [{"note": "printed"}]) == found
    assert not again  # nothing was measured anew
    console = Console(record=True, width=200)
    for table in experiment.tables(found):
        console.print(table)
    shown = console.export_text()
    assert "unreachable" in shown
    assert "prior" in shown
    assert "printed" in experiment.notes(found)
    part = next((tmp_path / "parts").iterdir())
    part.write_text("{", encoding="utf-8")
    assert experiment.run(Kept(tmp_path), again.append, [{"note": "printed"}]) == found
    assert again  # the part that was not whole was measured again, and came out the same


@pytest.mark.slow
@pytest.mark.parametrize("told", [CONVERGENCE, TRANSFER], ids=["convergence", "transfer"])
def test_others_run_and_are_written_down(told, tmp_path):
    preset = Preset("recup/tiny", "A tiny one", [], [], experiment=made(told))
    console = Console(record=True, width=160)
    run_experiment(preset, "quick", tmp_path, fresh=False, json=False, console=console)
    written = json.loads((tmp_path / "reproduced.json").read_text("utf-8"))
    assert written["complete"]
    assert written["shows"]["picture"] == "tiny.png"
    assert (tmp_path / "tiny.png").stat().st_size > 5000
    if told is CONVERGENCE:
        runs = written["shows"]["runs"]
        assert len(runs) == 6
        assert {run["aggregation"] for run in runs} == {"mean", "median"}
        bare = [run for run in runs if run["method"] == "no shield"]
        assert all(run["relative_l2"] == 0 for run in bare)
        assert any(run["relative_l2"] > 0 for run in runs)
    else:
        row = written["shows"]["rows"][0]
        assert -1 <= row["with_meta_train"]["estimate"] <= 1
        assert row["fooled"]["meta"]["own"]["estimate"] >= row["fooled"]["none"]["own"]["estimate"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"kind": "curvs"}, "its kind is one of"),
        ({"methods": []}, "needs cases and methods"),
        ({"methods": [{"name": "a", "shield": {"kind": "recupp"}}]}, "did you mean 'recup'"),
        ({"methods": [{"name": "a", "shield": {"kind": "sparsify"}, "values": [1]}]}, "need `setting`"),
        (
            {"methods": [{"name": "a", "shield": {"kind": "sparsify"}, "setting": "q", "values": [1]}]},
            "has no setting 'q'",
        ),
        ({"cases": [{"source": "adult", "attributes": ["sex"], "rounds": [0]}]}, "rounds count from 1"),
        ({"cases": [{"source": "adult", "attributes": ["sex"], "round": [1]}]}, "did you mean 'rounds'"),
    ],
)
def test_bad_settings_are_told_in_a_line_before_anything_runs(changes, said):
    with pytest.raises(InputError, match=said):
        made({**CURVES, **changes}).check()


def test_kinds_are_those_that_the_documentation_lists():
    page = (Path(__file__).resolve().parents[2] / "docs" / "reproductions.md").read_text("utf-8")
    assert all(f"| `{kind}` |" in page for kind in EXPERIMENTS)
