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
    shown = {row["method"]: row for row in block["methods"]}
    rows = {row["method"]: row for row in result["rows"] if "provable" in row["more"]}
    more = {method: row["more"] for method, row in rows.items()}
    assert more["none"]["reads"] == ["x", "y"]
    assert more["adversarial"]["reads"] == ["x", "u", "y"]
    assert more["tappfl"]["reads"] == ["x", "u"]
    assert more["compression"]["reads"] == ["x"]
    assert more["none"]["times_reference"]["estimate"] == 1.0
    assert more["tappfl"]["times_reference"]["estimate"] > 1.0  # three networks in place of one
    assert more["drop-columns"]["seconds_per_round"] is None
    # A tenth of the coordinates, each with its position.
    assert more["compression"]["bytes_per_round"] == pytest.approx(0.2 * more["noise"]["bytes_per_round"], rel=0.01)
    utility = {method: row["utility"] for method, row in rows.items()}
    assert utility["none"]["accuracy_lost"]["estimate"] == 0.0
    lost = utility["none"]["accuracy"]["estimate"] - utility["tappfl"]["accuracy"]["estimate"]
    assert utility["tappfl"]["accuracy_lost"]["estimate"] == pytest.approx(lost)
    assert shown["noise"]["spent"]["epsilon"] > 0
    assert shown["tappfl"]["certificates"] == []
    assert all(certificate["certified"] for certificate in shown["certified"]["certificates"])
    assert result["shows"]["unmeasured"] == {"MPC": "needs Flower's SecAgg+"}
    assert result["shows"]["paper"]["MPC"] == {"Table 1": {"provable": True, "accurate": True}}
    assert "not measured: needs Flower's SecAgg+" in output
    assert all(set(row) == ROW_KEYS for row in result["rows"])
    assert set(shown) == set(rows)
    assert more["certified"]["provable"].startswith("balanced accuracy ≤")
    assert more["noise"]["provable"].startswith("ε = ")
    assert more["tappfl"]["provable"] == "none"
    assert rows["tappfl"]["paper"] == {"Table 1": {"task-agnostic": True}}
    assert (folder / "tiny.png").read_bytes().startswith(b"\x89PNG")


def test_a_ratio_is_taken_turn_by_turn() -> None:
    ratio = ratio_of([2.0, 30.0, 4.0], [1.0, 10.0, 2.0])  # the second turn was a busy moment for both
    assert ratio == Figure(2.0, 2.0, 2.5)
