"""Presets: every one can be read at both scales, and the paper's figures find their rows."""

from __future__ import annotations

from pathlib import Path

import pytest
from fedveil_papers import preset as presets
from tiny_study import fedveil_here, last_json

from fedveil.core.errors import InputError


def test_every_preset_is_sound_at_both_scales() -> None:
    known = presets.available()
    assert {"baselines/adult", "demo/adult"} <= set(known)
    assert all(known.values())
    for name in known:
        for scale in presets.SCALES:
            preset = presets.read_preset(name, scale)
            assert preset.studies or preset.experiment


def test_the_list_is_for_people_and_programs() -> None:
    done = fedveil_here("reproduce", "--list", "--json")
    assert done.returncode == 0
    assert "baselines/adult" in {one["name"] for one in last_json(done)["presets"]}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["baselines/adlut"], "did you mean 'baselines/adult'?"),
        (["baselines/adult", "--scale", "papre"], "did you mean 'paper'?"),
        ([], "name a preset"),
        (["../smoke"], "no preset"),
    ],
)
def test_bad_input(arguments: list[str], said: str, tmp_path: Path) -> None:
    done = fedveil_here("reproduce", *arguments, "--out", tmp_path / "out")
    assert done.returncode == 2
    assert said in done.stderr
    assert not (tmp_path / "out").exists()


def test_figures_of_the_paper_stand_beside_their_rows() -> None:
    row = {"method": "m", "strength": 0.5, "task": "t", "attribute": "a", "attacker": "cotrained", "leakage": {}}
    other = {**row, "strength": 1.0}
    paper = [
        {"method": "m", "strength": 0.5, "attacker": "cotrained", "source": "Table 2", "leakage": {"accuracy": 0.7}},
        {"method": "n", "source": "Table 2", "leakage": {"accuracy": 0.1}},
    ]
    first, second = presets.beside_paper([row, other], paper)
    assert first["paper"] == {"Table 2": {"leakage": {"accuracy": 0.7}}}
    assert second["paper"] == {}


def test_a_preset_runs_and_says_what_it_reproduced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ours").mkdir()
    (tmp_path / "ours" / "tiny.yaml").write_text(
        """
title: a tiny one
study:
  name: ours/tiny
  data: {source: synthetic, target: y, sensitive: [u], options: {n: 600}}
  federation: {devices: 4, rounds: 1}
  methods: [{name: none, game: undefended}]
  drop_columns: [1]
  attacks: {panel: [logistic], draws: 100}
scales: {quick: {}, paper: {seeds: [0, 1]}}
paper:
  - {method: none, source: Table 9, leakage: {accuracy: 0.5}}
"""
    )
    monkeypatch.setattr(presets, "FOLDER", tmp_path)
    done = fedveil_here("reproduce", "ours/tiny", "--scale", "paper", "--out", tmp_path / "out", "--json")
    assert done.returncode == 0, done.stderr
    found = last_json(done)
    assert (found["study"], found["scale"], found["complete"]) == ("ours/tiny", "paper", True)
    rows = {row["method"]: row for row in found["rows"]}
    assert rows["none"]["seeds"] == [0, 1]
    assert rows["none"]["paper"] == {"Table 9": {"leakage": {"accuracy": 0.5}}}
    assert rows["drop-columns"]["paper"] == {}
    with pytest.raises(InputError, match="did you mean"):
        presets.read_preset("ours/tny", "quick")
