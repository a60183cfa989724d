"""Wide vectors: attackers read as much as can be learned, and say which columns they left out."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr

from fedveil.attacks.attack import Attack, Labelled
from fedveil.attacks.binning import Binning, binned, most_telling
from fedveil.attacks.boosting import Boosting
from fedveil.attacks.forest import Forest
from fedveil.attacks.logistic import Logistic
from fedveil.attacks.svm import RBFSVM

COLUMNS, LEARNED, VALIDATION = 1_024, 1_500, 500


def drawn(direction: np.ndarray, n: int, seed: int) -> Labelled:
    """Standard normal vectors that the attribute shifts along a direction by one standard deviation."""
    rng = np.random.default_rng(seed)
    codes = np.arange(n) % 2
    vectors = rng.standard_normal((n, COLUMNS), dtype=np.float32)
    return Labelled(vectors + np.outer(codes - 0.5, direction).astype(np.float32), codes)


def accuracy(attack: Attack, direction: np.ndarray) -> float:
    attack.fit(drawn(direction, LEARNED, 1), drawn(direction, VALIDATION, 2), 2)
    victims = drawn(direction, 6_000, 3)
    return float((attack.scores(victims.vectors).argmax(axis=1) == victims.codes).mean())


@pytest.mark.parametrize("kind", [Logistic, RBFSVM])
def test_a_shift_along_a_dense_direction_is_read_as_well_as_it_can_be_learned(kind: type[Attack]) -> None:
    """Learned from n people, no method passes Φ(.5 / √(1 + 4d/n)) = .604 here; the error of 6,000 victims is .006."""
    direction = np.random.default_rng(0).normal(size=COLUMNS)
    direction /= np.linalg.norm(direction)
    limit = float(ndtr(0.5 / np.sqrt(1 + 4 * COLUMNS / LEARNED)))
    assert accuracy(kind(seed=0), direction) > limit - 0.02


@pytest.mark.parametrize("kind", [Boosting, Forest])
def test_trees_lose_nothing_by_leaving_columns_out_and_say_so(
    kind: type[Boosting | Forest], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shift of one column, of which the best attacker reads Φ(.5) = .691."""
    screened = kind(seed=0)
    with_some = accuracy(screened, np.eye(COLUMNS)[700])
    assert screened.notes == ("used the 512 of 1,024 columns that depend most on the attribute one by one",)
    monkeypatch.setattr(kind, "most_columns", COLUMNS)
    complete = kind(seed=0)
    assert with_some > accuracy(complete, np.eye(COLUMNS)[700]) - 0.01
    assert complete.notes == ()


def test_a_column_that_depends_on_the_attribute_in_any_way_is_kept() -> None:
    rng = np.random.default_rng(4)
    codes = rng.integers(0, 2, 2_000)
    vectors = rng.normal(size=(2_000, 60))
    vectors[:, 3] += codes  # a shift
    vectors[:, 20] *= 1 + codes  # a spread, without a shift
    vectors[:, 41] = 2 * rng.integers(0, 40, 2_000) + codes  # a parity, without a shift or a spread
    vectors[:, 50] = 1.0
    assert set(most_telling(Binning.fit(vectors, 255).apply(vectors), codes, 2, 3)) == {3, 20, 41}
    binning, kept = binned(Labelled(vectors, codes), 2, 255, 3)
    assert binning.columns.tolist() == [3, 20, 41]
    np.testing.assert_array_equal(binning.apply(vectors), kept)


def test_few_values_have_a_bin_each_however_rare() -> None:
    column = np.r_[np.zeros(9_998), 1.0, 2.0][:, None]
    codes = Binning.fit(column, 64).apply(column)
    assert codes[[0, 9_998, 9_999], 0].tolist() == [0, 1, 2]
    spread = np.random.default_rng(0).normal(size=(20_000, 1))
    counts = np.bincount(Binning.fit(spread, 64).apply(spread)[:, 0])
    assert len(counts) == 64
    assert counts.max() - counts.min() <= 2
