"""Utility at matched leakage: the frontier's figures, "unreachable" where there are none, and the ε spent."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tiny_preset import GAME, ROW_KEYS, TAPPFL

from fedveil.shields.dp.gaussian import DPGaussian
from fedveil.studies.results import open_study

Reproduced = Callable[..., tuple[dict[str, Any], Path, str]]
METHODS = [
    TAPPFL,
    {
        "name": "noise on updates",
        "game": {**GAME, "strength": 0},
        "shield": {"kind": "dp-gaussian", "clip": 1.0},
        "varies": "shield.sigma",
        "strengths": [0.5, 5],
    },
    {
        "name": "as printed",
        "game": {**GAME, "strength": 0},
        "shield": {"kind": "dp-laplace", "clip": None, "scale": 0.1},
    },
    {
        "name": "noise on releases",
        "game": {**GAME, "strength": 0},
        "shield": {"kind": "dp-gaussian", "place": "last-layer", "clip": 1.0},
        "varies": "shield.sigma",
        "strengths": [0.5, 50],
    },
]


@pytest.mark.slow
def test_matched_utility_and_what_was_spent(reproduced: Reproduced) -> None:
    shows = {"kind": "matched-leakage", "levels": [0.01, 0.6, 0.99]}
    paper = [{"method": "tappfl", "source": "Figure 9", "matched": "TAPPFL is best"}]
    result, folder, output = reproduced(shows, paper, methods=METHODS)
    (panel,) = result["shows"]["panels"]
    frontier = open_study(folder).frontier()
    for method, at_levels in panel["matched"]["retrained"].items():
        assert at_levels["utility"][0] is None
        for level, figure in zip([0.6, 0.99], at_levels["utility"][1:], strict=True):
            expected = frontier.utility_at(method, level)
            assert (expected is None) == (figure is None)
            assert expected is None or figure["estimate"] == pytest.approx(expected.estimate)
    assert "drop-columns" in panel["matched"]["retrained"]
    # The co-trained adversary has not seen noisy releases.
    assert set(panel["matched"]["cotrained"]) == {"tappfl", "noise on updates", "as printed"}
    assert "unreachable" in output
    assert "co-trained adversary (weak)" in output
    assert "TAPPFL is best" in output
    assert all(set(row) == ROW_KEYS for row in result["rows"])
    matched = [row for row in result["rows"] if row["more"].get("matched")]
    assert {row["leakage"]["balanced_accuracy"]["estimate"] for row in matched} == {0.01, 0.6, 0.99}
    for row in matched:
        level = [0.01, 0.6, 0.99].index(row["leakage"]["balanced_accuracy"]["estimate"])
        assert row["utility"]["accuracy"] == panel["matched"][row["attacker"]][row["method"]]["utility"][level]
        assert row["more"]["reachable"] == (row["utility"]["accuracy"] is not None)
        assert row["seeds"] == [0]
    spent = {(point["method"], point["strength"]): point["spent"] for point in panel["points"]}
    # Every device sends an update in both rounds; a release is one message.
    assert spent["noise on updates", 5]["epsilon"] == pytest.approx(DPGaussian(5.0, 1.0).spent(2).bound)
    assert spent["noise on releases", 50]["epsilon"] == pytest.approx(DPGaussian(50.0, 1.0).spent(1).bound)
    assert spent["as printed", None]["epsilon"] is None
    assert spent["tappfl", 0] is None
    assert "ε = ∞ (not clipped)" in output
    assert (folder / "tiny.png").read_bytes().startswith(b"\x89PNG")
