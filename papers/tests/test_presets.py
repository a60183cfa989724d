"""Presets: each can be read at both scales, and the paper's figures are matched to their rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fedveil_papers import preset as presets
from fedveil_papers.kinds import EXPERIMENTS, SHOWN
from fedveil_papers.rows import Row
from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match
from tiny_study import fedveil_here, last_json

from fedveil.config.reading import changed, read_yaml
from fedveil.config.schema import study_schema
from fedveil.config.study import make_study
from fedveil.core.errors import InputError

VALIDATOR = Draft202012Validator(study_schema())


@pytest.mark.parametrize("scale", ["quick", pytest.param("paper", marks=pytest.mark.slow)])
def test_every_preset_is_sound(scale: str) -> None:
    assert scale in presets.SCALES
    available = presets.available()
    assert "baselines/adult" in available
    assert all(available.values())
    for name in available:
        preset = presets.read_preset(name, scale)
        assert preset.studies or preset.experiment


def studies_of_presets() -> dict[str, dict[str, Any]]:
    """Return the studies of all presets at every scale, as written."""
    studies = {}
    for path in sorted(presets.FOLDER.rglob("*.yaml")):
        content = read_yaml(path)
        for scale in presets.SCALES:
            if "experiment" in content:
                continue  # a measurement of its own kind, not a study
            for number, values in enumerate(content.get("studies") or [content["study"]]):
                for key, value in (content.get("scales", {}).get(scale) or {}).items():
                    values = changed(values, key, value)
                studies[f"{path.relative_to(presets.FOLDER)} {scale} {number}"] = values
    return studies


@pytest.mark.parametrize(("name", "values"), studies_of_presets().items(), ids=str)
def test_studies_validate_against_the_published_schema(name: str, values: dict[str, Any]) -> None:
    assert best_match(VALIDATOR.iter_errors(values)) is None
    make_study(values, name)


def test_the_list_is_for_people_and_programs() -> None:
    done = fedveil_here("reproduce", "--list", "--json")
    assert done.returncode == 0
    assert "baselines/adult" in {preset["name"] for preset in last_json(done)["presets"]}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["baselines/adlut"], "did you mean 'baselines/adult'?"),
        (["baselines/adult", "--scale", "papre"], "did you mean 'paper'?"),
        ([], "name a preset"),
        (["../smoke"], "no preset"),
    ],
)
def test_bad_input(arguments: list[str], message: str, tmp_path: Path) -> None:
    done = fedveil_here("reproduce", *arguments, "--out", tmp_path / "out")
    assert done.returncode == 2
    assert message in done.stderr
    assert not (tmp_path / "out").exists()


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
    arguments = ("reproduce", "ours/tiny", "--scale", "paper", "--out", tmp_path / "out", "--json")
    done = fedveil_here(*arguments)
    assert done.returncode == 0, done.stderr
    result = last_json(done)
    assert (result["preset"], result["scale"], result["complete"]) == ("ours/tiny", "paper", True)
    rows = {row["method"]: row for row in result["rows"]}
    assert rows["none"]["seeds"] == [0, 1]
    assert rows["none"]["paper"] == {"Table 9": {"leakage": {"accuracy": 0.5}}}
    assert rows["drop-columns"]["paper"] == {}
    for row in result["rows"]:
        assert list(row) == list(Row("any").as_dict())
        assert set(row["leakage"]["balanced_accuracy"]) == {"estimate", "low", "high"}
    again = fedveil_here(*arguments, "--workers", "0", "--fresh")  # in this process, with the same figures
    assert last_json(again) == result
    with pytest.raises(InputError, match="did you mean"):
        presets.read_preset("ours/tny", "quick")


def test_kinds_are_those_that_the_documentation_lists() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "reproductions.md").read_text("utf-8")
    assert all(f"| `{kind}` |" in page for kind in (*EXPERIMENTS, *SHOWN))
