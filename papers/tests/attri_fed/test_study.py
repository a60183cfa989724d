"""The experiment attri-fed: methods with and without a code, the oracle and DP-SGD, end to end on few digits."""

import io
import json

import pytest
from fedveil_papers import make_experiment
from fedveil_papers.cli import run_experiment
from fedveil_papers.preset import Preset
from rich.console import Console

from fedveil.core.errors import InputError

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
    for row in rows.values():
        assert row["weak"]["network"]["attacker"] == "mlp-small"
    assert "weak" in rows["eeo"]["weak"]["privatiser"]["attacker"]  # marked as such, and never the headline
    assert rows["none"]["weak"]["privatiser"] is None
    assert rows["eeo"]["server"]["attacker"] in ("logistic", "mlp-small", "mlp-large")


def test_accounting_runs_end_to_end_and_says_what_it_does_not_prove(tmp_path):
    methods = [
        {"name": "none", "game": {"variant": "none"}},
        {"name": "eeo", "game": {"variant": "eeo", "reach": 1}},
        {"name": "certified", "game": {"variant": "none"}, "shield": {"kind": "certified", "sigma": 2.0}},
    ]
    told = {**SMALL, "kind": "attri-fed-accounting", "methods": methods}
    preset = Preset("attri-fed/small", "small", [], [], experiment=make_experiment(told, "here"))
    console = Console(record=True, width=300, file=io.StringIO())
    run_experiment(preset, "quick", tmp_path, fresh=False, json=False, console=console)
    found = json.loads((tmp_path / "reproduced.json").read_text())["shows"]
    rows = {row["method"]: row for row in found["rows"]}
    stated = {row["accounting"]["corollary1"]["epsilon"] for row in rows.values()}
    assert len(stated) == 1  # unprotected or not
    assert all(row["accounting"]["attribute_dp"]["epsilon_at_least"] >= 0 for row in rows.values())
    assert {one["quantity"] for one in rows["certified"]["guarantees"]} == {
        "advantage",
        "balanced accuracy",
        "accuracy",
    }
    proved = next(one["bound"] for one in rows["certified"]["guarantees"] if one["quantity"] == "accuracy")
    assert rows["certified"]["stranger"]["accuracy"]["low"] <= proved < 0.5
    assert rows["certified"]["post_processing"] is None
    assert rows["none"]["guarantees"] == rows["eeo"]["guarantees"] == []
    assert rows["eeo"]["post_processing"]["difference"]["low"] <= 0.1
    text = console.export_text()
    assert "the same number for every method here, no protection included; it guarantees nothing" in text
    assert "no upper bound on what leaks" in text


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"data": {"source": "coloured_digits"}}, "give target"),
        ({"participants": [0]}, "at least 1"),
        ({"methods": [{"name": "a", "game": {"variant": "eoe"}}]}, "eoe"),
        ({"methods": [{"name": "a", "game": {"gamma": -1.0}}]}, "gamma must not be negative"),
        ({"methods": [{"name": "a", "game": {"beta": -1.0}}]}, "beta must not be negative"),
        ({"methods": [{"name": "a", "game": {"lam": -0.1}}]}, "lam must not be negative"),
        ({"methods": [{"name": "a", "shield": {"kind": "certified", "sigma": -1.0}}]}, "must be above 0"),
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


def test_tables_have_an_oracle_that_leaves_out_columns(tmp_path):
    none = {"variant": "none", "initial_rounds": 3}
    told = {
        **SMALL,
        "data": {"source": "adult", "target": "income", "attribute": "sex", "test": 2000, "options": {"tasks": False}},
        "samples": 300,
        "methods": [
            {"name": "none", "game": none},
            {"name": "oracle", "game": none, "shield": {"kind": "drop-columns", "columns": 5, "attribute": "sex"}},
        ],
    }
    preset = Preset("attri-fed/small", "small", [], [], experiment=make_experiment(told, "here"))
    run_experiment(preset, "quick", tmp_path, fresh=False, json=False, console=Console(quiet=True))
    rows = {row["method"]: row for row in json.loads((tmp_path / "reproduced.json").read_text())["shows"]["rows"]}
    read = {name: row["server"]["balanced_accuracy"]["estimate"] for name, row in rows.items()}
    assert read["oracle"] < read["none"] - 0.02
