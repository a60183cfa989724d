"""Audits of classifiers whose training is known: a zoo of five end to end, the preset, bad settings."""

import pytest
from curious_settings import AUDIT, AUDIT_CASE
from fedveil_papers.kinds import make_experiment
from fedveil_papers.preset import SCALES, read_preset
from small_experiment import reproduced_once

from fedveil.core.errors import InputError


@pytest.mark.parametrize("scale", SCALES)
def test_the_preset_can_be_run(scale):
    experiment = read_preset("curious/audit", scale).experiment
    experiment.check()
    recipes, cases = experiment.made_recipes(), experiment.made_cases()
    makers = [recipes[name].maker for case in cases for name in case.recipes]
    assert len(makers) >= 40
    assert {"network", "logistic", "boosting", "parameterised", "regularised", "hard-mixture", "server"} <= set(makers)
    assert {case.half for case in cases} == {"calibration", "report"}


def test_a_zoo_of_five_is_trained_audited_kept_and_drawn(tmp_path):
    reproduction = reproduced_once(AUDIT, [{"note": "printed"}], tmp_path)
    members = {member.recipe: member for member in reproduction.results.members}
    assert members["curious"].label == "curious"
    assert members["curious"].gain > 0.1
    assert members["curious"].audit.verdict == "curious"
    assert members["given up"].label == "failed attempt"
    for name in ("standard", "logistic"):
        assert members[name].label == "standard"
        assert members[name].audit.verdict == "undecided"  # the scores have many decimals
    assert members["logistic"].audit.reason == "precision"
    assert members["logistic"].rounded.verdict in ("standard", "correlated")
    assert [audit.rows for audit in members["curious"].audits] == [700, 300]  # there are no 90,000
    total = {
        count["label"]: count
        for count in reproduction.shows["counts"]
        if count["half"] == "all" and not count["rounded"]
    }
    assert members["digit code"].label == "digit code"
    assert members["digit code"].audit.verdict == "curious"
    assert "Digit codes caught: 1 of 1" in reproduction.text
    assert total["standard"]["members"] == 2
    assert total["curious"]["curious"] == 1
    assert "Standard classifiers called curious: 0 of 2" in reproduction.text
    assert "printed" in reproduction.text
    rows = [row for row in reproduction.rows if row["method"] == "curious"]
    assert [(row["attacker"], row["more"].get("rows")) for row in rows] == [
        ("maker", None),
        ("retrained", 700),
        ("retrained", 300),
    ]
    assert rows[1]["more"]["verdict"] == "curious"
    assert rows[1]["leakage"]["unexplained_share"]["low"] > rows[1]["more"]["limit"]
    assert {row["attacker"] for row in reproduction.rows if row["method"] == "logistic"} == {"retrained"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"runs": 0}, "at least 1 run"),
        ({"audited_rows": 100}, "200 rows"),
        ({"cases": []}, "1 case"),
        ({"panel": "forrest"}, "did you mean 'forest'"),
        ({"cases": [{**AUDIT_CASE, "recipes": ["curius"]}]}, "no recipe 'curius'"),
        ({"cases": [{**AUDIT_CASE, "recipes": []}]}, "names no recipes"),
        ({"cases": [{**AUDIT_CASE, "recipes": ["logistic", "curious"]}]}, "no standard network"),
        ({"cases": [{**AUDIT_CASE, "half": "third"}]}, "half"),
        ({"recipes": {"standard": {"maker": "vendor"}}}, "maker"),
        ({"recipes": {"standard": {"maker": "regularised"}}}, "choose output soft"),
        ({"recipes": {"standard": {"maker": "network", "epochs": 0}}}, "at least 1 epoch"),
        ({"recipes": {"standard": {"maker": "network", "code": "fourth digit"}}}, "did you mean 'fourth decimal'"),
    ],
)
def test_bad_settings_are_refused_in_a_line(changes, message):
    with pytest.raises(InputError, match=message):
        make_experiment({**AUDIT, **changes}, "preset x: experiment").check()
