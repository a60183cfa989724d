"""Curves of shields on updates: refused in one line, measured, kept part by part, and laid out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fedveil_papers.experiment import ExperimentStore
from fedveil_papers.kinds import make_experiment
from fedveil_papers.recup.cases import Case
from fedveil_papers.recup.update_curves import Curves, Panel, UpdateCurves
from recup_settings import CURVES
from rich.console import Console

from fedveil.core.errors import InputError
from fedveil.studies.runner import Listener


def curves(**changes: Any) -> UpdateCurves:
    experiment = make_experiment({**CURVES, **changes}, "preset x: experiment")
    assert isinstance(experiment, UpdateCurves)
    return experiment


def test_curves_are_measured_kept_and_laid_out(tmp_path: Path) -> None:
    experiment, finished = curves(), list[str]()
    listener = Listener(finished=lambda unit: finished.append(unit.name))
    results = experiment.run(tmp_path, [{"note": "printed"}], listener=listener)
    assert finished == ["small: no shield", "small: sparsify 0.3", "small: sparsify 9", "small: recup 0.001"]
    bare, reached, unreachable, recup = results.panels[0].tried
    assert unreachable.point is None
    assert reached.point is not None
    assert reached.point.damage[1]["relative_l2"] == pytest.approx(0.3, rel=0.15)
    assert recup.settings["zoos"]["sex"]["members"] == 2
    assert {reading.mode for reading in reached.point.readings} == {"static", "retrained", "pooled"}
    again = experiment.run(tmp_path, [{"note": "printed"}], listener=Listener(finished=pytest.fail))
    assert again == results  # nothing was measured a second time
    rows = experiment.rows(results)
    assert {row.attacker for row in rows if row.method == "sparsify" and row.strength == 0.3} == {
        "static",
        "retrained",
        "pooled",
    }
    assert {row.task for row in rows} == {"income"}
    console = Console(record=True, width=200)
    for table in experiment.tables(results):
        console.print(table)
    shown = console.export_text()
    assert "unreachable" in shown
    assert "prior" in shown
    assert "printed" in experiment.notes(results)
    assert bare.point is not None
    ExperimentStore(tmp_path, experiment.kind).file(experiment.parts()[0]).write_text("{", encoding="utf-8")
    assert experiment.run(tmp_path, [{"note": "printed"}], workers=1, listener=listener) == results
    assert finished[4:] == ["small: no shield"]  # measured again, by another process, to the same bits


def figures(method: str, losses: list[float], kept: float, validation_kept: float | None = None) -> dict[str, Any]:
    read = {"estimate": 0.8, "low": 0.7, "high": 0.9, "confidence": 0.95}
    reading = {"attribute": "sex", "round": 1, "mode": "retrained", "attacker": "forest", "features": "max"}
    measures = dict.fromkeys(("balanced_accuracy", "accuracy", "auc", "prior"), read)
    return {
        "method": method,
        "strength": None,
        "damage": {"1": {"relative_l2": 0.0}},
        "silent": 0,
        "rows": [{**reading, **measures, "validation": 0.8}],
        "losses": {str(1 + number): loss for number, loss in enumerate(losses)},
        "kept": kept,
        "validation_kept": validation_kept,
    }


@pytest.mark.parametrize("validation_kept", [None, 1.1])
def test_no_share_is_shown_if_the_undefended_loss_rose(validation_kept: float | None) -> None:
    case = Case.of({**CURVES["cases"][0]})
    stored = [figures("no shield", [0.65, 0.67], 1.0, validation_kept)]
    stored += [figures("sparsify", [0.65, 0.7047], 2.735, validation_kept)]  # as an earlier version stored it
    results = Curves([Panel.of(case, stored)], [])
    experiment = curves()
    assert [row.utility for row in experiment.rows(results)] == [None, None]
    assert any("the test loss rose by 0.0200 without a shield" in note for note in experiment.notes(results))
    console = Console(record=True, width=200)
    for table in experiment.tables(results):
        console.print(table)
    assert "2.735" not in console.export_text()
    assert "2.735" not in json.dumps(experiment.shows(results))


def test_a_share_is_shown_if_the_undefended_loss_fell() -> None:
    stored = [figures("no shield", [0.67, 0.65], 1.0), figures("sparsify", [0.67, 0.66], 0.5, 0.0)]
    panel = Panel.of(Case.of({**CURVES["cases"][0]}), stored)
    assert [tried.point and tried.point.kept for tried in panel.tried] == [1.0, 0.5]


@pytest.mark.parametrize(
    ("changes", "message"),
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
def test_bad_settings_are_refused_in_a_line_before_anything_runs(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make_experiment({**CURVES, **changes}, "preset x: experiment").check()
