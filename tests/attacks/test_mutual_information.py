"""The interval of the cross-fitted attacker contains the truth where the truth is known."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fedveil.attacks.mutual_information import cross_fitted_information
from fedveil.core.errors import InputError
from fedveil.data import MISSING, Attribute, load

STUDY = Path(__file__).resolve().parents[2] / "studies" / "information_coverage.py"


@pytest.mark.parametrize("bits", [0.0, 0.05, 0.2, 0.6])
def test_intervals_contain_the_truth(bits: float) -> None:
    estimates = []
    for seed in range(12):
        data = load("synthetic", sensitive="u", n=2000, bits=bits, dimension=8, seed=seed)
        estimates.append(cross_fitted_information(data.x, data.attributes["u"], seed=seed))
    assert sum(estimate.low <= bits <= estimate.high for estimate in estimates) >= 10
    assert np.mean([estimate.estimate for estimate in estimates]) == pytest.approx(bits, abs=0.015)
    assert max(estimate.high - estimate.low for estimate in estimates) < 0.12  # and not because they are wide
    assert all(0 <= estimate.low <= estimate.estimate <= estimate.high <= 1 for estimate in estimates)


@pytest.mark.slow
def test_intervals_contain_the_truth_in_ninety_of_a_hundred() -> None:
    done = subprocess.run([sys.executable, str(STUDY), "--json"], capture_output=True, text=True, check=True)
    rows = json.loads(done.stdout.splitlines()[-1])["rows"]
    assert [row["bits"] for row in rows] == [0.0, 0.05, 0.2, 0.6]
    for row in rows:
        assert row["repetitions"] == 100
        assert row["covered"] >= 90, row


def test_records_of_one_person_count_as_one() -> None:
    """Each record appears five times: five times the rows, but no more evidence."""
    data = load("synthetic", sensitive="u", n=600, bits=0.3, dimension=4, seed=1)
    u = data.attributes["u"]
    rows = np.repeat(np.arange(600), 5)
    vectors, copied = data.x[rows], u.take(rows)
    alone, blind, grouped = (
        cross_fitted_information(data.x, u, seed=1),
        cross_fitted_information(vectors, copied, seed=1),
        cross_fitted_information(vectors, copied, groups=rows, seed=1),
    )
    width = alone.high - alone.low
    assert blind.high - blind.low < 0.6 * width
    assert grouped.high - grouped.low == pytest.approx(width, rel=0.25)


def test_records_without_a_label_are_left_out() -> None:
    data = load("synthetic", sensitive="u", n=800, bits=0.3, dimension=4, seed=2)
    u = data.attributes["u"]
    labelled = np.arange(800) % 4 != 0
    part = Attribute("u", np.where(labelled, u.codes, MISSING), u.values)
    vectors = np.where(labelled[:, None], data.x, np.float32(1e6))  # whatever they hold
    groups = np.arange(800) // 2
    for whose in (None, groups):
        estimate = cross_fitted_information(vectors, part, groups=whose, seed=3)
        alone = cross_fitted_information(
            data.x[labelled], u.take(labelled), groups=None if whose is None else whose[labelled], seed=3
        )
        assert estimate == alone


def test_too_few_records_for_the_folds() -> None:
    u = Attribute("u", np.array([0] * 30 + [1]), ("a", "b"))
    vectors = np.random.default_rng(0).normal(size=(31, 2))
    with pytest.raises(InputError, match="attribute 'u': too few records of some value for 5 folds"):
        cross_fitted_information(vectors, u)
    together = Attribute("u", np.array([0] * 30 + [1] * 10), ("a", "b"))
    with pytest.raises(InputError, match="too few records"):  # ten records, but of one person
        cross_fitted_information(
            np.random.default_rng(0).normal(size=(40, 2)), together, groups=np.minimum(np.arange(40), 30)
        )
