"""Attackers who learn from fresh people, in a study: they count where they read more; choices never see the test."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from tiny_study import TINY, fedveil_here

from fedveil.config.reading import changed
from fedveil.config.study import make_study
from fedveil.core.errors import InputError
from fedveil.studies.check import checked
from fedveil.studies.results import open_study

ASKED = {"panel": ["logistic"], "draws": 100, "fresh": True}


def test_every_attacker_is_also_tried_on_fresh_people(write_study: Callable[..., Path], tmp_path: Path) -> None:
    path = write_study(methods=[{"name": "none", "game": "undefended"}], attacks=ASKED)
    done = fedveil_here("run", path, "--out", tmp_path / "out", "--workers", "1")
    assert done.returncode == 0, done.stderr
    for cell in open_study(tmp_path / "out").cells:
        judged = cell.result.leakage["u"]
        names = [attacker.name for attacker in judged.attackers]
        assert sorted(names) == ["logistic", "logistic (fresh people)"]
        reads = [attacker.balanced_accuracy.estimate for attacker in judged.attackers]
        assert reads[0] == max(reads) == pytest.approx(float(cell.draws["leakage/u"][0]))
        (panel,) = [
            attacker.validation_balanced_accuracy for attacker in judged.attackers if attacker.name == "logistic"
        ]
        # The figure is about validation people, whichever attacker counts.
        assert cell.result.strongest("u").validation_balanced_accuracy == panel
        written = json.loads((cell.folder / "result.json").read_text())["leakage"]["u"]["worst"]
        assert (written["name"], written["validation_balanced_accuracy"]) == (names[0], panel)
        assert judged.confidence == 0.95
    table = pd.read_csv(tmp_path / "out" / "results.csv")
    assert set(table["attacker_name"]) == {"logistic", "logistic (fresh people)"}
    assert (table.groupby("cell")["chosen_on_validation"].sum() == 1).all()


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("attacks", {**ASKED, "view": "updates", "rounds": [1], "shadows": 3}, "attacks.fresh: it is about people"),
        ("data.options", {"n": 60, "prior": 0.9}, "attacks.fresh: fresh attackers: "),
    ],
)
def test_what_cannot_be_halved_is_refused_before_anything_is_trained(key: str, value: Any, message: str) -> None:
    with pytest.raises(InputError) as caught:
        checked(make_study(changed({**TINY, "attacks": ASKED}, key, value)))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
