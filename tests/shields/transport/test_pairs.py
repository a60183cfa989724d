"""What columns have in common: guesses from the rest of a record, leading directions, all from counts."""

import numpy as np

from fedveil.shields.transport.columns import learn_columns
from fedveil.shields.transport.counts import Counts
from fedveil.shields.transport.pairs import Guess, Pairs, learn_common


def exact():
    return Counts(0.0, np.random.default_rng(0))


def people(n=6000, seed=0):
    """Five columns that depend on a hidden talent, and one that does not; u shifts them all."""
    rng = np.random.default_rng(seed)
    talent, u = rng.normal(size=n), rng.integers(0, 2, n)
    moved = [np.clip(np.round(talent + 0.7 * rng.normal(size=n) + 0.5 * u), -2, 2) for _ in range(5)]
    x = np.column_stack([*moved, rng.integers(0, 4, n)]).astype(float)
    return x, u, talent


def fitted(x, u, seen=None, directions=2, weights=(2.0, 0.0), counts=None):
    columns = learn_columns(x, [f"c{column}" for column in range(x.shape[1])], np.random.default_rng(0))
    cells = [column.cell(x) for column in columns]
    counts = counts or exact()
    pairs = Pairs.count(columns, cells, u, 2, counts)
    return learn_common(pairs, cells, seen or [True] * len(columns), u, 2, directions, weights, counts), cells


def test_a_guess_is_naive_bayes():
    """Against sums by hand, with the smoothing of half a person per cell."""
    rng = np.random.default_rng(0)
    target, first, second = rng.integers(0, 3, 500), rng.integers(0, 2, 500), rng.integers(0, 4, 500)
    first = np.where(rng.random(500) < 0.6, target % 2, first)
    tables = [np.zeros((3, 2)), np.zeros((3, 4))]
    for table, other in zip(tables, (first, second), strict=True):
        np.add.at(table, (target, other), 1)
    guess = Guess.learn(np.bincount(target, minlength=3).astype(float), tables)
    chances = np.exp(guess.log_chances([first[:5], second[:5]], 5))
    for person in range(5):
        odds = []
        for k in range(3):
            chance = np.bincount(target)[k] + 1.0
            for table, cell in zip(tables, (first[person], second[person]), strict=True):
                size = table.shape[1]
                share = (table.sum(axis=0) + 1e-3) / (table.sum() + 1e-3 * size)
                row = table[k] + 0.5 * size * share
                chance *= row[cell] / row.sum()
            odds.append(chance)
        np.testing.assert_allclose(chances[person], np.array(odds) / np.sum(odds), rtol=1e-9)


def test_the_first_direction_is_what_columns_share():
    """It follows the hidden talent within u, has the wanted variance there, and ignores the unrelated column."""
    x, u, talent = people()
    common, cells = fitted(x, u)
    coordinates = common.of(cells, len(x))
    first = coordinates[:, 0]
    assert coordinates.shape == (6000, 2)
    assert max(abs(np.corrcoef(first[u == value], talent[u == value])[0, 1]) for value in (0, 1)) > 0.9
    within = sum(((coordinates[u == v] - coordinates[u == v].mean(axis=0)) ** 2).sum(axis=0) for v in (0, 1)) / len(x)
    np.testing.assert_allclose(within, 2.0, rtol=1e-6)
    assert np.linalg.norm(coordinates, axis=1).max() <= common.bound


def test_guesses_at_columns_that_stay_are_coordinates_of_their_own():
    """One further coordinate for each, of the wanted variance, made of the other columns alone."""
    x, u, talent = people()
    seen = [False, *[True] * 5]
    common, cells = fitted(x, u, seen, directions=1, weights=(2.0, 3.0))
    coordinates = common.of(cells, len(x))
    assert coordinates.shape == (6000, 2)
    other = [np.zeros_like(cells[0]), *cells[1:]]
    np.testing.assert_array_equal(common.of(other, len(x))[:, 1], coordinates[:, 1])
    within = sum(((coordinates[u == v, 1] - coordinates[u == v, 1].mean()) ** 2).sum() for v in (0, 1)) / len(x)
    np.testing.assert_allclose(within, 3.0, rtol=1e-6)
    assert abs(np.corrcoef(coordinates[:, 1], talent)[0, 1]) > 0.8


def test_pairs_are_counted_in_both_orders_and_corrected_for_chance():
    """The other order is the transpose; independent columns share no bits beyond chance, equal ones all their bits."""
    rng = np.random.default_rng(1)
    x = rng.integers(0, 12, (4000, 2)).astype(float)
    columns = learn_columns(np.column_stack([x, x[:, 0] // 2]), ["a", "b", "c"], rng)
    cells = [column.cell(np.column_stack([x, x[:, 0] // 2])) for column in columns]
    counts = exact()
    pairs = Pairs.count(columns, cells, rng.integers(0, 2, 4000), 2, counts)
    assert counts.releases == 3
    np.testing.assert_array_equal(pairs.between(0, 1), pairs.between(1, 0).T)
    bits = pairs.information()
    assert bits[0, 1] < 0.01
    np.testing.assert_allclose(bits[0, 2], np.log2(6), atol=0.03)
    two = pairs.of(np.array([0, 2]))
    np.testing.assert_array_equal(two.between(0, 1), pairs.between(0, 2))


def test_noise_is_counted_for_every_question():
    """Fifteen pairs and one sum of products; the directions still follow the talent."""
    x, u, talent = people(20_000)
    counts = Counts(3.0, np.random.default_rng(0))
    common, cells = fitted(x, u, counts=counts)
    assert counts.releases == 16
    first = common.of(cells, len(x))[:, 0]
    assert abs(np.corrcoef(first[u == 0], talent[u == 0])[0, 1]) > 0.8
