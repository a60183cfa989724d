"""The strength for a target leakage: found by bisection on validation, or reported as unreachable."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tiny_study import fedveil_here, last_json

from fedveil.config.study import Method, PartSettings
from fedveil.core.figures import Estimate
from fedveil.studies.tune import Search, Tried

CHANNEL = {
    "name": "channel",
    "game": "raw",
    "shield": "certified",
    "varies": "shield.sigma",
    "strengths": [0.05, 20],
}


def search(leakage: Callable[[float], float], target: float, whole: bool = False, **further: Any) -> Search:
    """Search a made-up curve to its end."""
    method = Method(name="m", game=PartSettings(kind="adversarial"), strengths=further.pop("strengths", [0.1, 10.0]))
    state = Search(method, target, further.pop("tolerance", 0.001), whole)
    while (strength := state.wanted()) is not None and len(state.tried) < 40:
        figure = Estimate(leakage(strength) - 0.01, leakage(strength) - 0.02, leakage(strength))
        state.tried[strength] = Tried(strength, figure, leakage(strength), figure, figure)
    return state


def test_bisection_finds_the_weakest_safe_strength_of_a_falling_and_of_a_rising_curve() -> None:
    for sign in (1, -1):
        outcome = search(lambda s, sign=sign: 0.5 + 0.3 / (1 + s**sign), 0.6)
        assert outcome.answer is not None
        status, point = outcome.answer
        assert status == "reached"
        assert 0.599 <= point.possible_leakage <= 0.6
        assert point.validation_leakage < point.possible_leakage
        assert len(outcome.tried) < 16


def test_a_target_below_the_curve_is_unreachable_with_the_nearest_point() -> None:
    outcome = search(lambda s: 0.7 - 0.001 * s, 0.6)
    assert outcome.answer is not None
    assert outcome.answer[0] == "unreachable"
    assert outcome.answer[1].strength == 10.0
    assert len(outcome.tried) == 2


def test_a_target_above_the_curve_is_reached_by_the_most_useful_end() -> None:
    outcome = search(lambda s: 0.55 - 0.001 * s, 0.6)
    assert outcome.answer is not None
    assert outcome.answer[0] == "reached"
    assert outcome.answer[1].strength == 0.1


def test_whole_numbers_stay_whole_and_the_search_ends() -> None:
    outcome = search(lambda s: 0.9 - 0.05 * s, 0.63, whole=True, strengths=[0.0, 9.0])
    assert all(strength == int(strength) for strength in outcome.tried)
    assert outcome.answer is not None
    assert outcome.answer[1].strength == 6.0


@pytest.mark.slow
def test_tune_as_a_command(write_study: Callable[..., Path], tmp_path: Path) -> None:
    study = write_study(methods=[CHANNEL], drop_columns=[0], data={**DATA})
    done = fedveil_here(
        "tune", study, "--leakage", "0.62", "--steps", "3", "--tolerance", "0.02", "--out", tmp_path / "out", "--json"
    )
    assert done.returncode == 0, done.stderr
    (tuned,) = last_json(done)["methods"]
    figure = tuned["test"]["leakage"]["balanced_accuracy"]
    assert (tuned["status"] == "reached") == (figure["high"] <= 0.62)
    assert tuned["validation"]["leakage"] <= 0.62
    assert tuned["validation"]["leakage_interval"]["high"] > tuned["validation"]["leakage"]
    assert 0.05 < tuned["strength"] < 20
    assert {"low", "high"} <= set(tuned["test"]["leakage"]["balanced_accuracy"])
    assert len(tuned["tried"]) >= 3
    cells = len(list((tmp_path / "out" / "cells").iterdir()))
    again = fedveil_here(
        "tune", study, "--leakage", "0.62", "--steps", "3", "--tolerance", "0.02", "--out", tmp_path / "out", "--json"
    )
    assert last_json(again) == last_json(done)
    assert len(list((tmp_path / "out" / "cells").iterdir())) == cells  # every strength tried was kept
    narrow = fedveil_here(
        "tune",
        study,
        "--leakage",
        "0.6",
        "--out",
        tmp_path / "weak",
        "--set",
        "methods.channel.strengths=[0.05, 0.1]",
        "--json",
    )
    (tuned,) = last_json(narrow)["methods"]
    assert tuned["status"] == "unreachable"
    assert tuned["strength"] == 0.1


DATA = {"source": "synthetic", "target": "y", "sensitive": ["u"], "options": {"n": 1500, "bits": 0.4}}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--leakage", "1.5"], "must lie in (0, 1]"),
        (["--leakage", "0.6", "--method", "chanel"], "did you mean 'channel'?"),
        (["--leakage", "0.6", "--set", "methods.channel.strengths=[1]"], "no method of the study has two strengths"),
    ],
)
def test_bad_input(write_study: Callable[..., Path], tmp_path: Path, arguments: list[str], message: str) -> None:
    study = write_study(methods=[CHANNEL], drop_columns=[0], data=DATA)
    done = fedveil_here("tune", study, *arguments, "--out", tmp_path / "out")
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("shield", "varies", "strengths"),
    [
        ({"kind": "dp-gaussian", "clip": 1.0}, "shield.sigma", [0.1, 5]),
        ({"kind": "compression"}, "shield.keep", [0.01, 0.5]),
    ],
)
def test_a_leakage_that_noise_or_compression_of_updates_cannot_reach_is_reported_as_unreachable(
    write_study: Callable[..., Path], tmp_path: Path, shield: dict[str, Any], varies: str, strengths: list[float]
) -> None:
    """Both change updates and hide little of what is released afterwards: no strength brings leakage near chance."""
    method = {"name": "m", "game": "undefended", "shield": shield, "varies": varies, "strengths": strengths}
    study = write_study(methods=[method], drop_columns=[0], data={**DATA}, federation={"devices": 4, "rounds": 1})
    done = fedveil_here("tune", study, "--leakage", "0.51", "--method", "m", "--out", tmp_path / "out", "--json")
    assert "Traceback" not in done.stderr
    assert done.returncode == 0, done.stderr
    (tuned,) = last_json(done)["methods"]
    assert tuned["status"] == "unreachable"
    assert tuned["strength"] in strengths
    nearest = min(attempt["validation"]["leakage"] for attempt in tuned["tried"])
    assert tuned["validation"]["leakage"] == nearest > 0.51
    assert "unreachable" in done.stderr
    assert f"{tuned['strength']:g}" in done.stderr
