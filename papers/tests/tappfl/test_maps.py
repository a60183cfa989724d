"""Maps: raw inputs beside releases, each with figures to check the visual impression against."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fedveil_papers.tappfl.maps import neighbour_agreement
from tiny_preset import ROW_KEYS

Reproduced = Callable[..., tuple[dict[str, Any], Path, str]]


@pytest.mark.slow
def test_maps_of_raw_inputs_and_of_every_strength(reproduced: Reproduced) -> None:
    result, folder, output = reproduced("maps", drop_columns=[0, 1])
    (row,) = result["shows"]["rows"]
    assert [panel["title"] for panel in row["panels"]] == ["raw x", "r, λ = 0", "r, λ = 0.5", "r, λ = 1"]
    assert all(set(cell) == ROW_KEYS for cell in result["rows"])
    judged, mapped = (
        {(cell["method"], cell["strength"]): cell["leakage"] for cell in result["rows"] if cell["attacker"] == attacker}
        for attacker in ("retrained", "nearest neighbour")
    )
    points = [("drop-columns", 0), ("tappfl", 0), ("tappfl", 0.5), ("tappfl", 1)]
    for panel, point in zip(row["panels"], points, strict=True):
        assert len(panel["map"][0]) == len(panel["map"][1]) == len(panel["codes"])
        assert set(panel["codes"]) <= set(range(len(row["values"])))
        assert panel["retrained_balanced_accuracy"]["estimate"] == judged[point]["balanced_accuracy"]["estimate"]
        assert mapped[point]["balanced_accuracy"] == panel["neighbour_in_space"]
        assert 0 <= panel["neighbour_in_space"]["low"] <= panel["neighbour_in_space"]["estimate"] <= 1
    assert (folder / "tiny.png").read_bytes().startswith(b"\x89PNG")
    assert "1-NN" in output


def test_neighbour_agreement_equals_a_naive_count() -> None:
    rng = np.random.default_rng(0)
    vectors, codes = rng.standard_normal((60, 3)), rng.integers(0, 3, 60)
    hits = []
    for person in range(60):
        distances = ((vectors - vectors[person]) ** 2).sum(axis=1)
        distances[person] = np.inf
        hits.append(codes[distances.argmin()] == codes[person])
    expected = np.mean([np.mean([hit for hit, code in zip(hits, codes, strict=True) if code == k]) for k in range(3)])
    agreement = neighbour_agreement(vectors, codes)
    assert agreement is not None
    assert agreement.estimate == pytest.approx(expected)
    assert neighbour_agreement(vectors[:1], codes[:1]) is None


def test_equal_vectors_agree_by_chance_only() -> None:
    agreement = neighbour_agreement(np.zeros((40, 2)), np.arange(40) % 2)
    assert agreement is not None
    assert agreement.estimate == pytest.approx(19 / 39)
