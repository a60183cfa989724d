"""The preset curious/distillation, small: measured, kept, laid out, drawn; bad settings are refused before it runs."""

from dataclasses import replace

import pytest
from curious_settings import DIGITS, DISTILLATION
from fedveil_papers.curious.experiments.distillation import TransferRow, inherited
from fedveil_papers.curious.experiments.figures import RunFigure
from fedveil_papers.kinds import make_experiment
from fedveil_papers.preset import SCALES, read_preset
from small_experiment import reproduced_once
from synthetic_celeba import ramps, write_celeba

from fedveil.core.errors import InputError

PAPER = [
    {"case": "digits", "attack": "parameterised", "classifier": "student", "honesty": 0.9876, "curiosity": 0.8765},
    {"note": "printed"},
]


@pytest.mark.parametrize("scale", SCALES)
def test_the_preset_can_be_run(scale):
    experiment = read_preset("curious/distillation", scale).experiment
    experiment.check()
    assert experiment.runs == {"quick": 1, "paper": 5}[scale]


def test_students_are_measured_kept_laid_out_and_drawn(tmp_path, published):
    published("mnist")
    reproduction = reproduced_once(DISTILLATION, PAPER, tmp_path)
    rows = [(row.attack, row.share, row.classifier, row.temperature) for row in reproduction.results.rows]
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
    for row in reproduction.results.rows:
        assert (row.threshold is None) == (row.attack != "regularised")
    assert "0.876" in reproduction.text or "0.877" in reproduction.text  # the paper's figure is beside ours
    assert "printed" in reproduction.text
    beside = [row for row in reproduction.rows if row["paper"]]
    assert [(row["method"], row["strength"], row["attacker"]) for row in beside] == [
        ("parameterised student", 1.0, "maker"),
        ("parameterised student", 1.0, "retrained"),
    ]
    assert beside[0]["paper"] == {"Table 6": {"honesty": 0.9876, "curiosity": 0.8765}}
    thresholds = [row for row in reproduction.rows if row["attacker"] == "new threshold"]
    assert [row["method"] for row in thresholds] == ["regularised teacher", "regularised student"]
    assert len(reproduction.rows) == 2 * len(rows) + 2


def test_table_6_runs_on_celebas_folder_and_every_printed_figure_has_its_row(tmp_path, monkeypatch):
    write_celeba(tmp_path / "celeba", ramps)
    monkeypatch.setenv("FEDVEIL_DATA", str(tmp_path))
    preset = read_preset("curious/distillation", "paper")
    small = [{**case, "widths": [4, 4, 4, 4, 8], "epochs": 1} for case in preset.experiment.cases]
    quickly = {"runs": 1, "swept": [], "shares": [0.2], "student_steps": 2, "student_batch": 5}
    quickly |= {"panel": "logistic", "draws": 100, "fresh": False}
    results = replace(preset.experiment, cases=small, **quickly).run(tmp_path / "out", preset.paper)
    beside = {(row.case, row.attack, row.classifier) for row in results.rows if results.printed(row)}
    printed = {(entry["case"], entry["attack"], entry["classifier"]) for entry in preset.paper if "case" in entry}
    assert len(printed) == 16
    assert printed == beside
    assert beside == {(row.case, row.attack, row.classifier) for row in results.rows if row.attack != "standard"}


def row(attack, classifier, curiosity, temperature=None):
    figure = RunFigure(0.5, 0.4, 0.6)
    return TransferRow(
        case="c",
        secret="s",
        attack=attack,
        share=0.2,
        classifier=classifier,
        temperature=temperature,
        curiosity=replace(figure, estimate=curiosity),
        retrained=replace(figure, estimate=curiosity / 2),
        attacker="a",
        entropy=0.1,
        threshold=None,
        **dict.fromkeys(("honesty", "prior", "retrained_accuracy", "bits"), figure),
    )


def test_what_a_student_keeps_is_computed_for_large_excesses_only():
    rows = [row("standard", "teacher", 0.6), row("standard", "student", 0.58, 1.0)]
    rows += [row("parameterised", "teacher", 0.8), row("parameterised", "student", 0.75, 1.0)]
    (kept,) = inherited(rows)
    assert kept.excess_own == pytest.approx(0.2)
    assert kept.kept_own == pytest.approx(0.75)
    assert kept.excess_retrained == pytest.approx(0.1)
    (small,) = inherited([*rows[:2], row("regularised", "teacher", 0.69), row("regularised", "student", 0.68, 1.0)])
    assert small.kept_own is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"shares": [1.0]}, "shares must lie in"),
        ({"temperatures": [0.0]}, "above 0"),
        ({"attacks": ["parameterised"]}, "standard"),
        ({"swept": ["regularized"]}, "is not known"),
        ({"student_steps": -1}, "0 or more"),
        ({"swept_cases": ["digit"]}, "did you mean 'digits'"),
        ({"panel": "forrest"}, "did you mean 'forest'"),
        ({"cases": [{**DIGITS, "epochs": 0}]}, "at least 1"),
    ],
)
def test_bad_settings_are_refused_in_a_line(changes, message):
    with pytest.raises(InputError, match=message):
        make_experiment({**DISTILLATION, **changes}, "preset x: experiment").check()
