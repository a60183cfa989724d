"""The experiments attri-fed and attri-fed-accounting, end to end on few digits."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from attri_fed_settings import ACCOUNTING, STUDY
from fedveil_papers.attri_fed.study import AttriFedStudy
from fedveil_papers.kinds import make_experiment
from fedveil_papers.preset import Preset
from rich.console import Console

from fedveil.core.errors import InputError
from fedveil.studies.runner import Listener

FIRST = {"participants", "observer", "attacker_name", "bits", "bytes", "bytes_ratio", "certified_bits", "spent"}


def reproduced(settings: dict[str, Any], folder: Path, console: Console) -> dict[str, Any]:
    """Run a preset as the command does, and return its object."""
    from fedveil_papers.cli import reproduce_preset

    experiment = make_experiment(settings, "here")
    preset = Preset("attri-fed/small", "small", [], [{"note": "as printed"}], experiment=experiment)
    values = reproduce_preset(preset, "quick", folder, workers=0, console=console).values
    assert json.loads((folder / "reproduced.json").read_text()) == values
    return values


def test_it_runs_end_to_end_and_shows_what_its_methods_do(tmp_path: Path) -> None:
    values = reproduced(STUDY, tmp_path, Console(quiet=True))
    cells = {cell["method"]: cell for cell in values["shows"]["cells"]}
    assert set(cells) == {"none", "grey", "eeo", "dp", "adversarial"}
    assert "rows" not in values["shows"]
    for cell in cells.values():
        assert set(cell) == {"method", "participants", "prior", "certificates", "sent"}  # the rest is in the rows
        assert cell["participants"] == 2
    assert set(cells["eeo"]["certificates"]) == {"sender unknown", "sender known"}
    assert (tmp_path / "small.png").is_file()
    rows = {(row["method"], row["attacker"], row["more"]["observer"]): row for row in values["rows"]}
    assert len(rows) == len(values["rows"]) == 5 * 3 + 2  # a privatiser has eeo, and the adversarial game has one
    for row in rows.values():
        assert set(row["more"]) == FIRST
        assert (row["task"], row["attribute"], row["seeds"], row["paper"]) == ("digit", "colour", [0], {})
        assert 0 < row["more"]["bytes_ratio"] <= 1
        assert row["utility"]["accuracy"] == rows[row["method"], "retrained", "sender known"]["utility"]["accuracy"]
    for method in cells:
        read = rows[method, "retrained", "sender known"]["leakage"]["balanced_accuracy"]
        assert read["low"] <= read["estimate"]
        assert rows[method, "small network (weak)", "sender unknown"]["more"]["attacker_name"] == "mlp-small"
    server = rows["eeo", "retrained", "sender known"]
    assert rows["none", "retrained", "sender known"]["more"]["bytes_ratio"] == 1.0
    assert server["more"]["bytes_ratio"] < 0.6
    assert rows["dp", "retrained", "sender known"]["more"]["spent"]["prv"] <= 8.5
    # The privatiser is marked as weak, and is never the headline.
    assert "weak" in rows["eeo", "cotrained", "sender unknown"]["more"]["attacker_name"]
    assert ("none", "cotrained", "sender unknown") not in rows
    assert server["more"]["attacker_name"] in ("logistic", "mlp-small", "mlp-large")
    assert server["more"]["certified_bits"] == cells["eeo"]["certificates"]["sender known"]["bound"]
    assert rows["eeo", "cotrained", "sender unknown"]["leakage"]["accuracy"]["estimate"] <= 1


def test_what_varies_is_named_and_what_is_measured_is_read_back(tmp_path: Path) -> None:
    experiment = make_experiment({**STUDY, "methods": STUDY["methods"][:1], "vary": {"width": [2, 3]}}, "here")
    assert isinstance(experiment, AttriFedStudy)
    results = experiment.run(tmp_path)
    assert [cell.point for cell in results.cells] == [{"width": 2}, {"width": 3}]
    assert [row.more["width"] for row in experiment.rows(results)] == [2] * 3 + [3] * 3
    assert experiment.run(tmp_path, listener=Listener(finished=pytest.fail)) == results


def test_accounting_runs_end_to_end_and_says_what_it_does_not_prove(tmp_path: Path) -> None:
    console = Console(record=True, width=300, file=io.StringIO())
    values = reproduced(ACCOUNTING, tmp_path, console)
    cells = {cell["method"]: cell for cell in values["shows"]["cells"]}
    stated = {cell["accounting"]["corollary1"]["epsilon"] for cell in cells.values()}
    assert len(stated) == 1  # unprotected or not
    assert all(cell["accounting"]["attribute_dp"]["epsilon_at_least"] >= 0 for cell in cells.values())
    guarantees = {certificate["quantity"]: certificate["bound"] for certificate in cells["certified"]["guarantees"]}
    assert set(guarantees) == {"advantage", "balanced accuracy", "accuracy"}
    (read,) = [
        row["leakage"]["accuracy"]
        for row in values["rows"]
        if (row["method"], row["attacker"], row["more"].get("observer")) == ("certified", "retrained", "sender unknown")
        and row["more"].get("reads") != "outputs"
    ]
    assert read["low"] <= guarantees["accuracy"] < 0.5
    assert cells["certified"]["post_processing"] is None
    assert cells["none"]["guarantees"] == cells["eeo"]["guarantees"] == []
    assert cells["eeo"]["post_processing"]["difference"]["low"] <= 0.1
    text = console.export_text()
    assert "the same number for every method here, even without protection; it guarantees nothing" in text
    assert "not an upper bound on what leaks" in text
    assert "as printed" in text
    outputs = {row["method"]: row for row in values["rows"] if row["more"].get("reads") == "outputs"}
    assert set(outputs) == set(cells)
    assert outputs["certified"]["leakage"] is None
    assert outputs["certified"]["more"]["certified_accuracy"] == guarantees["accuracy"]
    assert outputs["eeo"]["leakage"]["difference_to_sent"] == cells["eeo"]["post_processing"]["difference"]
    assert {row["more"]["corollary1_epsilon"] for row in outputs.values()} == stated


@pytest.mark.parametrize(
    ("change", "message"),
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
def test_what_cannot_be_run_is_refused_in_one_line(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make_experiment({**STUDY, **change}, "here").check()


def test_more_participants_than_records_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="choose fewer participants"):
        make_experiment({**STUDY, "samples": 10**6}, "here").run(tmp_path)


def test_tables_have_an_oracle_that_drops_columns(tmp_path: Path) -> None:
    none = {"variant": "none", "initial_rounds": 3}
    settings = {
        **STUDY,
        "data": {"source": "adult", "target": "income", "attribute": "sex", "test": 2000, "options": {"tasks": False}},
        "samples": 300,
        "methods": [
            {"name": "none", "game": none},
            {"name": "oracle", "game": none, "shield": {"kind": "drop-columns", "columns": 5, "attribute": "sex"}},
        ],
    }
    experiment = make_experiment(settings, "here")
    assert isinstance(experiment, AttriFedStudy)
    read = {cell.method: cell.server.balanced_accuracy for cell in experiment.run(tmp_path).cells}
    assert read["oracle"] is not None
    assert read["none"] is not None
    assert read["oracle"].estimate < read["none"].estimate - 0.02
