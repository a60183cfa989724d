"""Losses against the strength: they are the recorded ones, and the line is least squares'."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_preset import ROW_KEYS

Reproduced = Callable[..., tuple[dict[str, Any], Path, str]]


def test_the_losses_are_the_recorded_ones(reproduced: Reproduced) -> None:
    result, folder, output = reproduced({"kind": "losses-by-strength", "rounds": 1})
    (panel,) = result["shows"]["panels"]
    assert [point["strength"] for point in panel["points"]] == [0, 0.5, 1]
    for point in panel["points"]:
        (cell,) = folder.glob(f"cells/tappfl-{point['strength']:g}-*")
        last = json.loads((cell / "metrics.jsonl").read_text().splitlines()[-1])
        assert point["losses"] == {name: last["losses"][name] for name in ("CE", "JSD")}
        judged = json.loads((cell / "result.json").read_text())["leakage"]["u"]
        assert point["retrained_bits"] == judged["mutual_information_bits"]
    for name in ("CE", "JSD"):
        slope, intercept = np.polyfit([0, 0.5, 1], [point["losses"][name] for point in panel["points"]], 1)
        line = panel["lines"][name]
        assert line["slope"]["estimate"] == pytest.approx(slope)
        assert line["intercept"] == pytest.approx(intercept)
        assert line["slope"]["low"] < line["slope"]["estimate"] < line["slope"]["high"]
        assert 0 <= line["r_squared"] <= 1
    assert 0 < panel["entropy_nats"] <= math.log(2)
    assert all(set(row) == ROW_KEYS for row in result["rows"])
    losses = {row["strength"]: row["more"]["losses"] for row in result["rows"] if "losses" in row["more"]}
    assert losses == {point["strength"]: point["losses"] for point in panel["points"]}
    lines = {row["more"]["line"]: row["more"] for row in result["rows"] if "line" in row["more"]}
    assert set(lines) == {"CE", "JSD", "retrained bits"}
    assert lines["CE"]["slope"] == panel["lines"]["CE"]["slope"]
    assert (folder / "tiny.png").read_bytes().startswith(b"\x89PNG")
    assert result["shows"]["picture"] == "tiny.png"
    assert json.loads((folder / "reproduced.json").read_text()) == result
    assert "slope" in output
    assert "co-trained (weak)" in output
