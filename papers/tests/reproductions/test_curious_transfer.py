"""The presets curious/pruning and curious/distillation, small: measured, kept, laid out, drawn; bad settings told."""

import json
from dataclasses import replace

import pytest
from fedveil_papers import Kept, make_experiment
from fedveil_papers.cli import run_experiment
from fedveil_papers.curious_case import CuriousCase
from fedveil_papers.curious_distillation_layout import kept_of
from fedveil_papers.curious_pruning_layout import bearable
from fedveil_papers.preset import SCALES, Preset, read_preset
from made_celeba import ramps, write_celeba
from rich.console import Console

from fedveil.core.errors import InputError

DIGITS = {
    "name": "digits",
    "source": "coloured_digits",
    "target": "digit",
    "secret": "colour",
    "options": {"limit": 1200, "correlation": 0.0},
    "merge": {"warm": ["red", "yellow", "orange", "magenta", "brown"], "cool": ["green", "blue", "cyan", "white"]},
    "widths": [8, 8, 8, 8, 16],
    "epochs": 2,
}
QUICKLY = {"cases": [DIGITS], "runs": 1, "panel": "logistic", "most": 300, "draws": 100, "fresh": False}
PRUNING = {"kind": "curious-pruning", "betas": [[0.0, 0.5, 0.5]], "amounts": [0.0, 0.9], "listed": [0.9], **QUICKLY}
PRUNING["cases"] = [{**DIGITS, "widths": [16, 16, 16, 16, 32], "epochs": 12}]
DISTILLATION = {
    "kind": "curious-distillation",
    "shares": [0.2, 0.5],
    "temperatures": [1.0, 5.0],
    "student_steps": 5,
    **QUICKLY,
}
PAPER = [
    {"case": "digits", "attack": "parameterised", "classifier": "student", "honesty": 0.9876, "curiosity": 0.8765},
    {"note": "printed"},
]


def made(told, **changes):
    return make_experiment({**told, **changes}, "preset x: experiment")


def shown_by(told, folder):
    """Run an experiment as the command does; its figures, and what a person reads."""
    preset = Preset("curious/tiny", "A tiny one", [], PAPER, experiment=made(told))
    console = Console(record=True, width=260)
    run_experiment(preset, "quick", folder, fresh=False, json=False, console=console)
    shown = json.loads((folder / "reproduced.json").read_text("utf-8"))["shows"]
    assert (folder / shown["picture"]).stat().st_size > 20_000
    before = {path: path.stat().st_mtime_ns for path in (folder / "parts").iterdir()}
    assert before
    again = preset.experiment.run(Kept(folder), lambda _: None, PAPER)
    assert {path: path.stat().st_mtime_ns for path in (folder / "parts").iterdir()} == before
    assert json.loads(json.dumps(again)) == {key: value for key, value in shown.items() if key in again}
    return shown, console.export_text()


@pytest.mark.parametrize("name", ["curious/pruning", "curious/distillation"])
@pytest.mark.parametrize("scale", SCALES)
def test_the_presets_can_be_run(name, scale):
    experiment = read_preset(name, scale).experiment
    experiment.check()
    assert experiment.runs == {"quick": 1, "paper": 5}[scale]


def test_pruned_classifiers_are_measured_kept_laid_out_and_drawn(tmp_path, published):
    published("mnist")
    shown, text = shown_by(PRUNING, tmp_path)
    assert [curve["release"] for curve in shown["curves"]] == ["Std", "RawHBC", "SoftHBC"]
    for curve in shown["curves"]:
        whole, pruned = curve["rows"]
        for reading in ("honesty", "curiosity", "retrained", "retrained_accuracy"):
            assert pruned[reading]["low"] <= pruned[reading]["estimate"] <= pruned[reading]["high"]
        assert pruned["honesty"]["estimate"] < whole["honesty"]["estimate"] - 0.1
    assert "90%" in text
    assert "printed" in text


def test_students_are_measured_kept_laid_out_and_drawn(tmp_path, published):
    published("mnist")
    shown, text = shown_by(DISTILLATION, tmp_path)
    rows = [(row["attack"], row["share"], row["classifier"], row["temperature"]) for row in shown["rows"]]
    assert rows == [
        ("standard", 0.2, "teacher", None),
        ("standard", 0.2, "student", 1.0),
        ("parameterised", 0.2, "teacher", None),
        ("parameterised", 0.2, "student", 1.0),
        ("parameterised", 0.2, "student", 5.0),
        ("regularised", 0.2, "teacher", None),
        ("regularised", 0.2, "student", 1.0),
        ("parameterised", 0.5, "teacher", None),
        ("parameterised", 0.5, "student", 1.0),
    ]
    for row in shown["rows"]:
        assert (row["threshold"] is None) == (row["attack"] != "regularised")
    assert "0.876" in text or "0.877" in text  # the paper's figure stands beside ours
    assert "printed" in text


def test_table_6_runs_on_celebas_folder_and_every_printed_figure_has_its_row(tmp_path, monkeypatch):
    write_celeba(tmp_path / "celeba", ramps)
    monkeypatch.setenv("FEDVEIL_DATA", str(tmp_path))
    preset = read_preset("curious/distillation", "paper")
    small = [{**case, "widths": [4, 4, 4, 4, 8], "epochs": 1} for case in preset.experiment.cases]
    quickly = {"runs": 1, "swept": [], "shares": [0.2], "student_steps": 2, "student_batch": 5}
    quickly |= {"panel": "logistic", "draws": 100, "fresh": False}
    found = replace(preset.experiment, cases=small, **quickly).run(Kept(tmp_path / "out"), lambda _: None, preset.paper)
    rows = {(row["case"], row["attack"], row["classifier"]) for row in found["rows"]}
    printed = {(one["case"], one["attack"], one["classifier"]) for one in preset.paper if "case" in one}
    assert len(printed) == 16
    assert printed == {row for row in rows if row[1] != "standard"}


def row(attack, classifier, curiosity, temperature=None):
    figures = {"curiosity": {"estimate": curiosity}, "retrained": {"estimate": curiosity / 2}}
    about = {"case": "c", "attack": attack, "share": 0.2, "classifier": classifier, "temperature": temperature}
    return {**about, **figures}


def test_what_a_student_keeps_is_asked_of_large_excesses_only():
    rows = [row("standard", "teacher", 0.6), row("standard", "student", 0.58, 1.0)]
    rows += [row("parameterised", "teacher", 0.8), row("parameterised", "student", 0.75, 1.0)]
    (kept,) = kept_of(rows)
    assert kept["excess_own"] == pytest.approx(0.2)
    assert kept["kept_own"] == pytest.approx(0.75)
    assert kept["excess_retrained"] == pytest.approx(0.1)
    (small,) = kept_of([*rows[:2], row("regularised", "teacher", 0.69), row("regularised", "student", 0.68, 1.0)])
    assert small["kept_own"] is None


def test_the_bearable_amount_ends_where_honesty_first_drops():
    rows = [
        {"amount": amount, "honesty": {"estimate": honesty}}
        for amount, honesty in ((0.0, 0.8), (0.3, 0.79), (0.5, 0.7), (0.7, 0.8))
    ]
    assert bearable({"rows": rows})["amount"] == 0.3


def test_a_merged_secret_has_the_values_told_and_lacks_the_rest(published):
    published("mnist")
    secret = CuriousCase.of(DIGITS, "x").load(0).attribute("colour")
    assert set(secret.values) == {"warm", "cool"}
    assert 0 < (~secret.known).sum() < 0.15 * len(secret)  # violet stands in neither
    wrong = CuriousCase.of({**DIGITS, "merge": {"a": ["redd"], "b": ["blue"]}}, "x")
    with pytest.raises(InputError, match="did you mean 'red'"):
        wrong.load(0)


@pytest.mark.parametrize(
    ("told", "changes", "said"),
    [
        (PRUNING, {"runs": 0}, "at least 1"),
        (PRUNING, {"amounts": [1.0]}, "amounts must lie in"),
        (PRUNING, {"scope": "globe"}, "choose layer or network"),
        (PRUNING, {"betas": [[0.5, 0.5]]}, "β_x, β_y, β_s"),
        (PRUNING, {"cases": [{**DIGITS, "secret": "color"}]}, "did you mean 'colour'"),
        (PRUNING, {"cases": [{**DIGITS, "merge": {"all": ["red"]}}]}, "at least two"),
        (DISTILLATION, {"shares": [1.0]}, "shares must lie in"),
        (DISTILLATION, {"temperatures": [0.0]}, "above 0"),
        (DISTILLATION, {"attacks": ["parameterised"]}, "standard"),
        (DISTILLATION, {"swept": ["regularized"]}, "is not known"),
        (DISTILLATION, {"student_steps": -1}, "0 or more"),
        (DISTILLATION, {"swept_cases": ["digit"]}, "did you mean 'digits'"),
        (DISTILLATION, {"panel": "forrest"}, "did you mean 'forest'"),
        (DISTILLATION, {"cases": [{**DIGITS, "epochs": 0}]}, "at least 1"),
    ],
)
def test_bad_settings_are_told_in_a_line(told, changes, said):
    with pytest.raises(InputError, match=said):
        made(told, **changes).check()
