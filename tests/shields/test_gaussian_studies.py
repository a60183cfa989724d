"""The page on rivals: its study is sound, and its attacker on updates judges one."""

import copy
import math
import re
from pathlib import Path

import pytest
import yaml
from tiny_study import TINY

from fedveil.config.cells import load_data, make_federation, make_game
from fedveil.config.study import make_study
from fedveil.core.errors import InputError
from fedveil.federation import begin
from fedveil.studies.check import checked
from fedveil.studies.judging import judge_run

PAGE = Path(__file__).resolve().parents[2] / "docs" / "rivals.md"


def study_of(**changes):
    return make_study({**copy.deepcopy(TINY), **changes})


def test_the_methods_shown_on_the_page_can_be_run():
    (shown,) = re.findall(r"^```yaml\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    methods = yaml.safe_load(shown)["methods"]
    plan = checked(study_of(methods=methods))
    assert len(plan.cells) == 1 + sum(len(method["strengths"]) for method in methods)


def test_a_target_that_cannot_be_reached_is_refused_before_anything_is_run():
    method = {"name": "dp", "game": "undefended", "shield": {"kind": "dp-gaussian", "epsilon": 1, "clip": None}}
    with pytest.raises(InputError, match=r"shield: DP-Gaussian: epsilon 1.0 cannot be reached without clip"):
        checked(study_of(methods=[method]))


def judged(study, number):
    method = study.methods[number]
    strength = method.points[0]
    run = begin(make_federation(study, method, strength, 0, load_data(study, 0)), make_game(method, strength))
    watched = study.attacks.view == "updates"
    run.play(2, record=study.attacks.rounds if watched else (), shadows=study.attacks.shadows if watched else 0)
    return judge_run(study, run, lambda share, what: None)[0].as_dict()


def test_certificates_of_noise_are_shown_where_they_hold():
    settings = {"on input": {"place": "input"}, "on updates": {}, "as printed": {"place": "input", "clip": None}}
    methods = [
        {"name": name, "game": "undefended", "shield": {"kind": "dp-laplace", "scale": 2, **changes}}
        for name, changes in settings.items()
    ]
    study = study_of(methods=methods)
    shown = [judged(study, number)["certificates"]["u"] for number in range(3)]
    assert [certificate["quantity"] for certificate in shown[0]] == ["advantage", "balanced accuracy", "accuracy"]
    assert shown[0][0]["bound"] == pytest.approx((math.e - 1) / (math.e + 1))
    assert shown[1] == shown[2] == []


def test_a_study_of_updates_is_judged_by_the_attacker_on_updates():
    study = study_of(
        methods=[{"name": "none", "game": {"kind": "fedavg", "hidden": [4]}}],
        federation={"devices": 20, "rounds": 2, "partition": {"kind": "dirichlet", "alpha": 0.3, "by": "u"}},
        attacks={"view": "updates", "panel": ["updates"], "rounds": [1, 2], "shadows": 30, "draws": 100},
    )
    figures = judged(study, 0)
    assert figures["leakage"]["u"]["attackers"][0]["name"] == "updates"
    assert figures["leakage"]["u"]["groups"] == 20
