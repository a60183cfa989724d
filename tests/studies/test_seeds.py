"""Several seeds as one figure: intervals that join people and seeds, the same in tables and in the frontier's draws."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file
from scipy.stats import t as student

from fedveil.config.cells import Cell
from fedveil.core.errors import InputError
from fedveil.core.figures import Estimate
from fedveil.studies.model import FORMAT, CellFigures
from fedveil.studies.reading import read_facts
from fedveil.studies.results import CellResult, draws_of_mean
from fedveil.studies.rows import CHANCES, averaged, seed_factor


def cells(folder: Path, points: list[float], deviation: float) -> list[CellResult]:
    results = []
    for seed, point in enumerate(points):
        rng = np.random.default_rng(seed)
        (folder / str(seed)).mkdir()
        draws = np.concatenate([[point], rng.normal(point, deviation, 400)])
        save_file({"leakage/u": draws}, folder / str(seed) / "draws.safetensors")
        results.append(CellResult(Cell(str(seed), "m", None, seed), folder / str(seed), CellFigures({}, {})))
    return results


@pytest.mark.parametrize("points", [[0.7], [0.7, 0.7], [0.6, 0.62, 0.64], [0.58, 0.6, 0.62, 0.64, 0.66]])
def test_draws_of_a_mean_spread_as_its_interval_says(tmp_path: Path, points: list[float]) -> None:
    figure = averaged([Estimate(p, p - 1.96 * 0.01, p + 1.96 * 0.01) for p in points])
    draws = draws_of_mean(cells(tmp_path, points, 0.01), "leakage/u", figure)
    assert draws.mean() == pytest.approx(np.mean(points), abs=0.004)
    assert 1.96 * draws.std() == pytest.approx((figure.high - figure.low) / 2, rel=0.2)


@pytest.mark.parametrize("seeds", [2, 3, 10])
def test_seeds_drawn_with_replacement_are_stretched_to_students_interval(seeds: int) -> None:
    points = np.random.default_rng(0).normal(size=seeds)
    drawn = points[np.random.default_rng(1).integers(0, seeds, (20_000, seeds))].mean(axis=1)
    asked = student.ppf(0.975, seeds - 1) * points.std(ddof=1) / np.sqrt(seeds)
    assert 1.96 * drawn.std() * seed_factor(seeds) == pytest.approx(asked, rel=0.03)


def test_an_interval_stays_within_what_a_share_can_be() -> None:
    figures = [Estimate(p, p - 0.01, p + 0.005) for p in (0.9, 0.99)]
    assert averaged(figures).high > 1
    average = averaged(figures, CHANCES)
    assert average.high == 1.0
    assert 0 <= average.low < average.estimate


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": FORMAT + 1, "cells": {}}, f"written in format {FORMAT + 1}"),
        ({"cells": [1]}, "is damaged"),
        ({"cells": [{"id": "../../x", "method": "m", "strength": None, "seed": 0}]}, "is damaged"),
        ({"cells": [{"id": "..", "method": "m", "strength": None, "seed": 0}]}, "is damaged"),
        ({"cells": [{"id": "a", "method": "m", "seed": 0}]}, "is damaged"),
        ({"name": None}, "is damaged"),
    ],
)
def test_a_study_file_that_is_not_ours(tmp_path: Path, changes: dict[str, object], message: str) -> None:
    facts = {"format": FORMAT, "name": "n", "version": "9", "study": {}, "cells": []}
    (tmp_path / "study.json").write_text(json.dumps({**facts, **changes}))
    with pytest.raises(InputError, match=message):
        read_facts(tmp_path)
