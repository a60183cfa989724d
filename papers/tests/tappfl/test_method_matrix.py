"""The matrix: every cell is measured, and those that cannot be measured say so."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fedveil_papers.rows import Figure
from fedveil_papers.tappfl.device_cost import ratio_of
from tiny_preset import GAME, ROW_KEYS

Reproduced = Callable[..., tuple[dict[str, Any], Path, str]]
METHODS = [
    {"name": "none", "game": "undefended"},
    {"name": "adversarial", "game": {"kind": "adversarial", "attribute": "u"}},
    {"name": "compression", "game": "autoencoder", "shield": {"kind": "compression", "keep": 0.1}},
    {"name": "noise", "game": "autoencoder", "shield": {"kind": "dp-gaussian", "sigma": 0.01}},
    {"name": "certified", "game": "undefended", "shield": {"kind": "certified", "radius": 1.0, "sigma": 1.0}},
    {"name": "tappfl", "game": {**GAME, "strength": 0.5}},
]
SHOWS = {
    "kind": "method-matrix",
    "names": {"adversarial": "AT", "tappfl": "TAPPFL"},
    "unmeasured": {"MPC": "needs Flower's SecAgg+"},
}
PAPER = [
    {"method": "MPC", "source": "Table 1", "marks": {"provable": True, "accurate": True}},
    {"method": "tappfl", "source": "Table 1", "marks": {"task-agnostic": True}},
]


@pytest.mark.slow
def test_every_cell_is_measured(reproduced: Reproduced) -> None:
    result, folder, output = reproduced(SHOWS, PAPER, methods=METHODS)
    (block,) = result["shows"]["blocks"]
    rows = {row["method"]: row for row in block["rows"]}
    assert rows["none"]["reads"] == ["x", "y"]
    assert rows["adversarial"]["reads"] == ["x", "u", "y"]
    assert rows["tappfl"]["reads"] == ["x", "u"]
    assert rows["compression"]["reads"] == ["x"]
    assert rows["none"]["times_reference"]["estimate"] == 1.0
    assert rows["tappfl"]["times_reference"]["estimate"] > 1.0  # three networks in place of one
    assert rows["drop-columns"]["seconds_per_round"] is None
    # A tenth of the coordinates, each with its position.
    assert rows["compression"]["bytes_per_round"] == pytest.approx(0.2 * rows["noise"]["bytes_per_round"], rel=0.01)
    assert rows["none"]["utility_lost"]["estimate"] == 0.0
    lost = rows["none"]["utility"]["estimate"] - rows["tappfl"]["utility"]["estimate"]
    assert rows["tappfl"]["utility_lost"]["estimate"] == pytest.approx(lost)
    assert rows["noise"]["spent"]["epsilon"] > 0
    assert rows["tappfl"]["certificates"] == []
    assert rows["certified"]["certificates"]
    assert result["shows"]["unmeasured"] == {"MPC": "needs Flower's SecAgg+"}
    assert result["shows"]["paper"]["MPC"] == {"Table 1": {"provable": True, "accurate": True}}
    assert "not measured: needs Flower's SecAgg+" in output
    assert all(set(row) == ROW_KEYS for row in result["rows"])
    measured = {row["method"]: row for row in result["rows"] if "provable" in row["more"]}
    assert set(measured) == set(rows)
    assert measured["certified"]["more"]["provable"].startswith("balanced accuracy ≤")
    assert measured["noise"]["more"]["provable"].startswith("ε = ")
    assert measured["tappfl"]["more"]["provable"] == "none"
    assert measured["tappfl"]["paper"] == {"Table 1": {"task-agnostic": True}}
    assert measured["tappfl"]["utility"]["accuracy_lost"] == rows["tappfl"]["utility_lost"]
    assert (folder / "tiny.png").read_bytes().startswith(b"\x89PNG")


def test_a_ratio_is_taken_turn_by_turn() -> None:
    ratio = ratio_of([2.0, 30.0, 4.0], [1.0, 10.0, 2.0])  # the second turn was a busy moment for both
    assert ratio == Figure(2.0, 2.0, 2.5)
