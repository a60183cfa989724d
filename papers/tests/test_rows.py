"""One shape of results: whatever a preset measures, its rows have the same fields, and figures the same form."""

from __future__ import annotations

import importlib
import importlib.util
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fedveil_papers.cli import reproduce_preset
from fedveil_papers.kinds import EXPERIMENTS, make_experiment
from fedveil_papers.preset import Preset
from fedveil_papers.rows import IDENTITY, Figure, Row, beside_paper, study_row
from rich.console import Console
from synthetic_celeba import ramps, write_celeba

from fedveil.core.figures import Estimate
from fedveil.data.catalogue import find_source
from fedveil.data.locate import find
from fedveil.studies.rows import MEASURES, MeanLeakage, MeanUtility
from fedveil.studies.rows import Row as StudyRow

KEYS = ["method", "strength", "task", "attribute", "attacker", "seeds", "utility", "leakage", "paper", "more"]


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def check_row(row: dict[str, Any]) -> None:
    """Refuse a row that does not have the common shape."""
    assert list(row) == KEYS
    assert isinstance(row["method"], str)
    assert row["strength"] is None or is_number(row["strength"])
    for name in ("task", "attribute", "attacker"):
        assert row[name] is None or (isinstance(row[name], str) and row[name])
    assert all(isinstance(seed, int) for seed in row["seeds"])
    for name in ("utility", "leakage"):
        for measure, figure in (row[name] or {}).items():
            assert isinstance(measure, str)
            if figure is not None:
                assert list(figure) == ["estimate", "low", "high"], measure
                assert is_number(figure["estimate"]), measure
                assert (figure["low"] is None) == (figure["high"] is None), measure
                assert figure["low"] is None or figure["low"] <= figure["estimate"] + 1e-12 <= figure["high"] + 2e-12
    for name in ("paper", "more"):
        assert isinstance(row[name], dict)
    assert json.loads(json.dumps(row, allow_nan=False)) == row


def tiny_settings(kind: str) -> dict[str, Any]:
    """Return small settings of a kind, from the file of its paper in tests/support."""
    paper = {"attri": "attri_fed", "curious": "curious", "audit": "curious"}.get(kind.partition("-")[0], "recup")
    if importlib.util.find_spec(f"{paper}_settings") is None:
        pytest.skip(f"{paper}_settings is not here")
    module = importlib.import_module(f"{paper}_settings")
    candidates = [value for value in vars(module).values() if isinstance(value, dict) and value.get("kind") == kind]
    assert candidates, f"{paper}_settings has no settings of {kind}"
    settings: dict[str, Any] = candidates[0]
    return settings


@pytest.mark.parametrize("kind", EXPERIMENTS)
def test_every_experiment_ends_in_rows_of_one_shape(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if kind == "reconstruction":
        write_celeba(tmp_path / "data" / "celeba", ramps)
        monkeypatch.setenv("FEDVEIL_DATA", str(tmp_path / "data"))
    for source in ("adult", "coloured_digits"):
        if f'"{source}"' in json.dumps(tiny_settings(kind)) and find(find_source(source)) is None:
            pytest.skip(f"the data of {source} is not here: set FEDVEIL_DATA")
    preset = Preset("ours/tiny", "tiny", [], [], experiment=make_experiment(tiny_settings(kind), "here"))
    console = Console(quiet=True)
    values = reproduce_preset(preset, "quick", tmp_path / "out", workers=0, console=console).values
    assert list(values) == ["preset", "scale", "complete", "rows", "shows"]
    assert (values["preset"], values["scale"], values["complete"]) == ("ours/tiny", "quick", True)
    assert values["rows"]
    for row in values["rows"]:
        check_row(row)
    assert values["shows"]["kind"] == kind
    assert json.loads((tmp_path / "out" / "reproduced.json").read_text("utf-8")) == values


def test_a_figure_is_made_of_any_object_that_holds_one() -> None:
    for value in (Estimate(0.5, 0.25, 1.0), {"estimate": 0.5, "low": 0.25, "high": 1.0}, Figure(0.5, 0.25, 1.0)):
        assert Figure.of(value) == Figure(0.5, 0.25, 1.0)
    assert Figure.of(2) == Figure(2)
    for nothing in (None, math.nan, {"estimate": None, "low": None, "high": None}):
        assert Figure.of(nothing) is None
    assert Figure(0.5, 0.25, 1.0).shown(1) == "0.5 [0.2, 1.0]"


def test_a_row_of_a_study_is_put_into_the_common_shape() -> None:
    estimate, figure = Estimate(0.5, 0.4, 0.6), Figure(0.5, 0.4, 0.6)
    measures = dict.fromkeys(MEASURES, estimate)
    study = StudyRow(
        method="m",
        strength=1.0,
        task="y",
        attribute="u",
        attacker="retrained",
        attacker_name="boosting",
        seeds=(0, 1),
        utility=MeanUtility(estimate, estimate, prior=0.7, validation_accuracy=0.8, head="mlp"),
        leakage=MeanLeakage(
            **measures,
            prior=estimate,
            chance=0.25,
            validation_balanced_accuracy=math.nan,
            detectable_advantage=0.1,
        ),
        utility_only={"u": 2},
        devices=5,
    )
    row = study_row(study, data="adult")
    check_row(row.as_dict())
    assert [getattr(row, name) for name in (*IDENTITY, "seeds")] == ["m", 1.0, "y", "u", "retrained", (0, 1)]
    assert row.utility == {
        "accuracy": figure,
        "balanced_accuracy": figure,
        "prior": Figure(0.7),
        "validation_accuracy": Figure(0.8),
    }
    assert row.leakage == {
        **dict.fromkeys(MEASURES, figure),
        "prior": figure,
        "chance": Figure(0.25),
        "validation_balanced_accuracy": None,
        "detectable_advantage": Figure(0.1),
        "new_seed": None,
    }
    utility_only = {"u": {"devices": 2, "of": 5}}
    assert row.more == {
        "attacker_name": "boosting",
        "spent": None,
        "utility_only": utility_only,
        "head": "mlp",
        "data": "adult",
    }
    gained = replace(study, leakage=replace(study.leakage, gain=estimate))
    assert (study_row(gained).leakage or {})["gain"] == figure
    # Nothing that a study's row says is lost.
    assert set(study.as_dict()) <= {*row.as_dict(), *row.more}
    assert {*study.utility.as_dict()} == {*row.utility, "head"}
    assert set(gained.leakage.as_dict()) == set(study_row(gained).leakage or {})


def test_figures_of_the_paper_are_beside_their_rows() -> None:
    rows = [
        Row("m", strength, task="t", attribute="a", attacker="cotrained", leakage={"accuracy": Figure(0.6)})
        for strength in (0.5, 1.0)
    ]
    paper = [
        {"method": "m", "strength": 0.5, "attacker": "cotrained", "source": "Table 2", "leakage": {"accuracy": 0.7}},
        {"method": "n", "source": "Table 2", "leakage": {"accuracy": 0.1}},
    ]
    first, second = beside_paper(rows, paper)
    assert first.paper == {"Table 2": {"leakage": {"accuracy": 0.7}}}
    assert second.paper == {}
