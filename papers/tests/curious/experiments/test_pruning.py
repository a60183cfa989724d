"""The preset curious/pruning, small: measured, kept, laid out, drawn; bad settings are refused before it runs."""

import pytest
from curious_settings import DIGITS, PRUNING
from fedveil_papers.curious.experiments.figures import RunFigure
from fedveil_papers.curious.experiments.pruning import Curve, PrunedRow
from fedveil_papers.kinds import make_experiment
from fedveil_papers.preset import SCALES, read_preset
from small_experiment import reproduced_once

from fedveil.core.errors import InputError


@pytest.mark.parametrize("scale", SCALES)
def test_the_preset_can_be_run(scale):
    experiment = read_preset("curious/pruning", scale).experiment
    experiment.check()
    assert experiment.runs == {"quick": 1, "paper": 5}[scale]


def test_pruned_classifiers_are_measured_kept_laid_out_and_drawn(tmp_path, published):
    published("mnist")
    reproduction = reproduced_once(PRUNING, [{"note": "printed"}], tmp_path)
    curves = reproduction.results.curves
    assert [curve.release for curve in curves] == ["Std", "RawHBC", "SoftHBC"]
    for curve in curves:
        whole, pruned = curve.rows
        for figure in (pruned.honesty, pruned.curiosity, pruned.retrained, pruned.retrained_accuracy):
            assert figure.low <= figure.estimate <= figure.high
        assert pruned.honesty.estimate < whole.honesty.estimate - 0.1
    assert "90%" in reproduction.text
    assert "printed" in reproduction.text
    rows = [row for row in reproduction.rows if row["method"] == "RawHBC"]
    assert [(row["strength"], row["attacker"]) for row in rows] == [
        (0.0, "maker"),
        (0.0, "retrained"),
        (0.9, "maker"),
        (0.9, "retrained"),
    ]
    assert {(row["task"], row["attribute"], row["more"]["case"]) for row in rows} == {("digit", "colour", "digits")}
    assert rows[3]["leakage"]["balanced_accuracy"]["estimate"] == curves[1].rows[1].retrained.estimate


def test_the_tolerable_amount_ends_where_honesty_first_drops():
    def row(amount, honesty):
        names = ("curiosity", "prior", "retrained", "retrained_accuracy", "bits")
        figure = RunFigure(0.5, 0.4, 0.6)
        figures = {**dict.fromkeys(names, figure), "honesty": RunFigure(honesty, honesty, honesty)}
        return PrunedRow(amount=amount, attacker="a", entropy=0.1, **figures)

    rows = [row(*pair) for pair in ((0.0, 0.8), (0.3, 0.79), (0.5, 0.7), (0.7, 0.8))]
    assert Curve("c", "Std", [], rows).bearable().amount == 0.3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"runs": 0}, "at least 1"),
        ({"amounts": [1.0]}, "amounts must lie in"),
        ({"scope": "globe"}, "choose layer or network"),
        ({"betas": [[0.5, 0.5]]}, "β_x, β_y, β_s"),
        ({"cases": [{**DIGITS, "secret": "color"}]}, "did you mean 'colour'"),
        ({"cases": [{**DIGITS, "merge": {"all": ["red"]}}]}, "at least two"),
    ],
)
def test_bad_settings_are_refused_in_a_line(changes, message):
    with pytest.raises(InputError, match=message):
        make_experiment({**PRUNING, **changes}, "preset x: experiment").check()
