"""Several seeds: these releases and a new one are two quantities; few seeds never turn "read" into "not read"."""

from __future__ import annotations

import json
import runpy
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
from fedveil.studies.seeds import (
    CHANCES,
    Spread,
    is_read,
    new_seed,
    pooled_spread,
    seed_factor,
    these_releases,
)

STUDY = Path(__file__).resolve().parents[2] / "studies" / "seed_coverage.py"
coverage = runpy.run_path(str(STUDY))["coverage"]


def cells(folder: Path, points: list[float], deviation: float) -> list[CellResult]:
    results = []
    for seed, point in enumerate(points):
        rng = np.random.default_rng(seed)
        (folder / str(seed)).mkdir()
        draws = np.concatenate([[point], rng.normal(point, deviation, 400)])
        save_file({"leakage/u": draws}, folder / str(seed) / "draws.safetensors")
        results.append(CellResult(Cell(str(seed), "m", None, seed), folder / str(seed), CellFigures({}, {})))
    return results


TWO = [Estimate(0.585, 0.553, 0.618), Estimate(0.570, 0.540, 0.602)]
"""Two seeds of an undefended release, each of which is read."""


def test_two_seeds_that_are_read_are_read_together() -> None:
    figure = these_releases(TWO, CHANCES)
    assert (figure.low, figure.high) == (pytest.approx(0.5465), pytest.approx(0.610))
    assert is_read(TWO, 0.5)


def test_one_seed_that_is_read_among_several_that_are_not_counts() -> None:
    unread = Estimate(0.49, 0.46, 0.52)
    assert not is_read([unread] * 5, 0.5)
    assert not is_read([*[unread] * 4, Estimate(0.535, 0.502, 0.568)], 0.5)  # one in five may exclude chance by chance
    assert is_read([*[unread] * 4, Estimate(0.57, 0.54, 0.60)], 0.5)


def test_only_three_seeds_speak_of_a_new_one() -> None:
    assert new_seed(TWO[:1]) is None
    assert new_seed(TWO) is None
    three = [Estimate(p, p - 0.01, p + 0.01) for p in (0.60, 0.62, 0.64)]
    figure = new_seed(three, within=CHANCES)
    assert figure is not None
    half = np.hypot(0.01, student.ppf(0.975, 2) * 0.02 * np.sqrt(4 / 3))
    assert figure.high - figure.estimate == pytest.approx(half)
    assert these_releases(three).high - 0.62 == pytest.approx(0.01)


def test_spreads_are_pooled_where_a_test_does_not_tell_them_apart() -> None:
    rng = np.random.default_rng(0)
    alike = [rng.normal(mean, 0.02, 4) for mean in (0.5, 0.6, 0.7, 0.8)]
    pooled = pooled_spread(alike)
    assert pooled is not None
    assert pooled.degrees == 12
    assert pooled.deviation == pytest.approx(0.02, rel=0.4)
    assert pooled_spread([rng.normal(0.5, 0.001, 10), rng.normal(0.6, 0.1, 10)]) is None
    assert pooled_spread([[0.5, 0.6], [0.5, 0.6]]) is None
    assert pooled_spread([[0.5] * 3, [0.6] * 3]) == Spread(0.0, 4)


@pytest.mark.parametrize("shared", [True, False], ids=["one test set", "a test set each"])
@pytest.mark.parametrize("spread", [0.0, 0.03])
@pytest.mark.parametrize("seeds", [1, 2, 3, 5, 10])
def test_the_interval_of_these_releases_covers_their_mean(seeds: int, spread: float, shared: bool) -> None:
    assert coverage(seeds, spread, shared=shared, repetitions=2000).these_releases > 0.93


@pytest.mark.parametrize("seeds", [3, 5, 10])
def test_the_prediction_covers_a_new_seed(seeds: int) -> None:
    assert (coverage(seeds, 0.03, shared=False, repetitions=2000).new_seed or 0) > 0.93


@pytest.mark.parametrize("points", [[0.7], [0.7, 0.7], [0.6, 0.62, 0.64], [0.58, 0.6, 0.62, 0.64, 0.66]])
def test_draws_that_compare_methods_join_people_and_seeds(tmp_path: Path, points: list[float]) -> None:
    people, between = 1.96 * 0.01, 0.0
    if len(points) > 1:
        between = student.ppf(0.975, len(points) - 1) * np.std(points, ddof=1) / np.sqrt(len(points))
    draws = draws_of_mean(cells(tmp_path, points, 0.01), "leakage/u", Estimate(float(np.mean(points)), 0, 1))
    assert draws.mean() == pytest.approx(np.mean(points), abs=0.004)
    assert 1.96 * draws.std() == pytest.approx(np.hypot(people, between), rel=0.2)


@pytest.mark.parametrize("seeds", [2, 3, 10])
def test_seeds_drawn_with_replacement_are_stretched_to_students_interval(seeds: int) -> None:
    points = np.random.default_rng(0).normal(size=seeds)
    drawn = points[np.random.default_rng(1).integers(0, seeds, (20_000, seeds))].mean(axis=1)
    asked = student.ppf(0.975, seeds - 1) * points.std(ddof=1) / np.sqrt(seeds)
    assert 1.96 * drawn.std() * seed_factor(seeds) == pytest.approx(asked, rel=0.03)


def test_an_interval_stays_within_what_a_share_can_be() -> None:
    figures = [Estimate(p, p - 0.01, p + 0.02) for p in (0.98, 0.995)]
    assert these_releases(figures).high > 1
    figure = these_releases(figures, CHANCES)
    assert figure.high == 1.0
    assert 0 <= figure.low < figure.estimate


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
