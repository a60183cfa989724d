"""The experiment attri-fed: methods with and without a code, the oracle and DP-SGD, end to end on few digits."""

import json

import pytest
from rich.console import Console

from fedveil.cli.reproduce import run_experiment
from fedveil.errors import InputError
from fedveil.reproductions import make_experiment
from fedveil.studies.presets import Preset

SMALL = {
    "kind": "attri-fed",
    "data": {
        "source": "coloured_digits",
        "target": "digit",
        "attribute": "colour",
        "test": 200,
        "options": {"limit": 1500},
    },
    "participants": [2],
    "samples": 100,
    "game": {"width": 3, "initial_rounds": 1, "private_rounds": 2, "federated_rounds": 1, "steps": 2},
    "methods": [
        {"name": "none", "game": {"variant": "none"}},
        {"name": "grey", "game": {"variant": "none"}, "data": {"greyscale": True}},
        {"name": "eeo", "game": {"variant": "eeo"}},
        {"name": "dp", "dp": {"epsilon": 8.0, "epochs": 1, "width": 3}},
        {"name": "adversarial", "game": {"kind": "adversarial", "hidden": [8], "width": 4}},
    ],
    "panel": "logistic",
}


def test_it_runs_end_to_end_and_rows_carry_what_is_promised(tmp_path):
    preset = Preset("attri-fed/small", "small", [], [], experiment=make_experiment(SMALL, "here"))
    run_experiment(preset, "quick", tmp_path, fresh=False, json=False, console=Console(quiet=True))
    found = json.loads((tmp_path / "reproduced.json").read_text())["shows"]
    rows = {row["method"]: row for row in found["rows"]}
    assert set(rows) == {"none", "grey", "eeo", "dp", "adversarial"}
    for row in rows.values():
        assert row["participants"] == 2
        assert 0 < row["bytes_ratio"] <= 1
        assert row["server"]["balanced_accuracy"]["low"] <= row["server"]["balanced_accuracy"]["estimate"]
    assert rows["none"]["bytes_ratio"] == 1.0
    assert rows["eeo"]["bytes_ratio"] < 0.6
    assert set(rows["eeo"]["certificates"]) == {"sender unknown", "sender known"}
    assert rows["dp"]["spent"]["prv"] <= 8.5
    assert (tmp_path / "small.png").is_file()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"data": {"source": "coloured_digits"}}, "give target"),
        ({"participants": [0]}, "at least 1"),
        ({"methods": [{"name": "a", "game": {"variant": "eoe"}}]}, "eoe"),
        ({"methods": [{"name": "a", "game": {"gamma": -1.0}}]}, "gamma must not be negative"),
        ({"methods": [{"name": "a", "dp": {"epsilon": 0.0}}]}, "above 0"),
    ],
)
def test_what_cannot_be_run_is_told_in_one_line(change, told):
    with pytest.raises(InputError, match=told):
        make_experiment({**SMALL, **change}, "here").check()


def test_more_participants_than_records_are_refused(tmp_path):
    preset = Preset("attri-fed/small", "small", [], [], experiment=make_experiment({**SMALL, "samples": 10**6}, "here"))
    with pytest.raises(InputError, match="fewer participants"):
        run_experiment(preset, "quick", tmp_path, fresh=False, json=False, console=Console(quiet=True))
