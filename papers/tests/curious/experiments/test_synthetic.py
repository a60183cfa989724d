"""The preset curious/synthetic, small: measured, kept, laid out, drawn; bad settings are refused before it runs."""

import pytest
from curious_settings import SYNTHETIC
from fedveil_papers.curious.experiments.figures import RunFigure, over_runs
from fedveil_papers.curious.experiments.plane import MarginRow
from fedveil_papers.kinds import make_experiment
from fedveil_papers.preset import SCALES, read_preset
from small_experiment import reproduced_once

from fedveil.core.errors import InputError

PAPER = [{"release": "hard mixture", "honesty": 1.0, "curiosity": 1.0}, {"note": "printed"}]


@pytest.mark.parametrize("scale", SCALES)
def test_the_preset_can_be_run(scale):
    preset = read_preset("curious/synthetic", scale)
    preset.experiment.check()
    assert preset.experiment.runs == {"quick": 1, "paper": 5}[scale]


@pytest.fixture(scope="module")
def reproduction(tmp_path_factory):
    return reproduced_once(SYNTHETIC, PAPER, tmp_path_factory.mktemp("synthetic"))


def test_it_is_measured_kept_laid_out_and_drawn(reproduction):
    results = reproduction.results
    standard, hard, normal = results.mixtures
    assert hard.honesty.estimate == 1
    assert hard.curiosity.estimate == 1
    assert hard.retrained.estimate > 0.99
    assert standard.retrained.estimate < 0.56
    assert 0.8 < normal.curiosity.estimate < 1
    assert normal.curiosity.low < normal.curiosity.estimate < normal.curiosity.high
    assert normal.curiosity.deviation > 0
    plain, curious = results.convex
    assert plain.intervals.estimate < 0.56
    for row in (plain, curious):
        assert row.honesty.estimate + row.curiosity.estimate <= row.ceiling + 1e-9
    assert curious.honesty.estimate + curious.intervals.estimate > 1.95
    assert [row.agreement for row in results.near] == [0.5, 0.5, 0.5, 0.75, 1.0]
    assert all(row.distance <= row.gap_bound + 1e-6 for row in results.near)
    assert "prior" in reproduction.text
    assert "printed" in reproduction.text


def test_rows_name_the_release_who_reads_it_and_what_the_paper_prints(reproduction):
    rows = reproduction.rows
    assert {(row["task"], row["attribute"]) for row in rows} == {("y", "s")}
    assert all(row["seeds"] == [0, 1] for row in rows)
    hard = {row["attacker"]: row for row in rows if row["method"] == "hard mixture"}
    assert set(hard) == {"maker", "retrained"}
    assert hard["maker"]["leakage"]["accuracy"]["estimate"] == 1
    assert hard["maker"]["paper"] == {"Figure 4": {"honesty": 1.0, "curiosity": 1.0}}
    assert hard["retrained"]["more"]["attacker_name"] == "rbf-svm"
    both = [row for row in rows if row["method"] == "one logistic regression" and row["strength"] == 0.2]
    assert [row["attacker"] for row in both] == ["maker", "retrained", "own threshold", "intervals", None]
    assert both[-1]["more"]["distance"] < both[-1]["more"]["gap_bound"]


def test_runs_are_joined_by_mean_deviation_and_widest_interval():
    runs = [
        [MarginRow(margin, RunFigure(point, point - 0.1, point + 0.1), RunFigure(0.5, 0.4, 0.6))]
        for margin, point in ((0.1, 0.4), (0.2, 0.6))
    ]
    (row,) = over_runs(runs)
    assert row.margin == pytest.approx(0.15)
    assert vars(row.honesty) == pytest.approx({"estimate": 0.5, "low": 0.3, "high": 0.7, "deviation": 0.02**0.5})
    assert row.curiosity.deviation == 0
    assert over_runs(runs[:1]) == runs[0]


@pytest.mark.parametrize(
    ("changes", "message"),
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
def test_bad_settings_are_refused_in_a_line(changes, message):
    with pytest.raises(InputError, match=message):
        make_experiment({**SYNTHETIC, **changes}, "preset x: experiment").check()
