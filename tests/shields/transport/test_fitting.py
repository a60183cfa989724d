"""Transport's mathematics: potentials fill cells as wanted, columns have cells, counts are noised and accounted for."""

import numpy as np
import pytest
import torch

from fedveil.certificates import gaussian_epsilon
from fedveil.core.errors import InputError
from fedveil.shields.transport.alignment import align, draw, potentials, schedule
from fedveil.shields.transport.codebook import far_apart, learn_codebook
from fedveil.shields.transport.columns import learn_columns, learn_strata
from fedveil.shields.transport.counts import Counts
from fedveil.shields.transport.pairs import Pairs, aloof, importance


def exact():
    return Counts(0.0, np.random.default_rng(0))


def test_potentials_fill_cells_as_wanted():
    """On a line, with any wanted shares, the expected fill is the wanted one, and the draw is monotone on average."""
    rng = np.random.default_rng(0)
    points, centres = torch.from_numpy(rng.normal(size=4000)), torch.linspace(-1, 1, 5, dtype=torch.float64)
    cost = (points[:, None] - centres) ** 2
    wanted = np.array([0.4, 0.3, 0.15, 0.1, 0.05])
    b = potentials(cost, wanted, schedule(float(cost.std()), 0.05, 200), exact())
    fill = torch.softmax((b - cost) / 0.05, dim=1).mean(dim=0).numpy()
    np.testing.assert_allclose(fill, wanted, atol=1e-4)
    cells = draw(cost, b, 0.05, torch.from_numpy(rng.random(4000))).numpy()
    means = [points.numpy()[cells == cell].mean() for cell in range(5)]
    assert means == sorted(means)


def test_two_cells_in_closed_form():
    """People alike and two cells: b₁ − b₀ = D₁ − D₀ + τ log(w₁/w₀)."""
    cost = torch.tensor([[0.0, 0.7]], dtype=torch.float64).repeat(50, 1)
    b = potentials(cost, np.array([0.2, 0.8]), schedule(1.0, 0.1, 100), exact())
    assert float(b[1] - b[0]) == pytest.approx(0.7 + 0.1 * np.log(4), abs=1e-6)


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_alignment_shrinks_total_variation_by_the_share(share):
    """Cells follow u with error .2: TV .6 before, (1 − s)·.6 after, up to the draw; nobody moves at s = 0."""
    rng = np.random.default_rng(1)
    u = rng.integers(0, 2, 20_000)
    codes = np.where(rng.random(20_000) < 0.8, u, 1 - u)
    cost = torch.from_numpy(10.0 * (codes[:, None] != np.arange(2)))
    strata = np.zeros(20_000, dtype=np.int64)
    fitted = align(cost, codes, strata, u, (1, 2), share, 0.3, 200, exact(), 1.0)
    new = fitted.move(cost, strata, u, torch.from_numpy(rng.random(20_000)))
    variation = abs(new[u == 0].mean() - new[u == 1].mean())
    assert variation == pytest.approx((1 - share) * 0.6, abs=0.02)
    assert share > 0 or (new != codes).mean() < 1e-3


def test_columns_have_cells_and_duplicates_are_joined():
    """An atom has its own cell; a category that encodes a number joins it, in its order; unseen gets the usual cell."""
    rng = np.random.default_rng(0)
    level = rng.integers(0, 4, 3000)
    gain = np.where(rng.random(3000) < 0.9, 0.0, rng.exponential(1.0, 3000))
    x = np.column_stack([np.eye(4)[level][:, [2, 0, 3, 1]], level, gain])
    columns = learn_columns(x, ["school"] * 4 + ["years", "gain"], rng)
    assert [column.names for column in columns] == [("school", "years"), ("gain",)]
    assert columns[0].features.tolist() == [0, 1, 2, 3, 4]
    np.testing.assert_array_equal(columns[0].cell(x), level)
    cells = columns[1].cell(x)
    assert len(np.unique(cells[gain == 0])) == 1
    assert not np.isin(cells[gain > 0], cells[gain == 0]).any()
    category = learn_columns(x[:, :4], ["school"] * 4, rng)[0]
    assert category.cell(np.zeros((1, 4)))[0] == category.usual


def test_tiny_strata_are_joined():
    """A combination with too few people of a value is never a stratum of its own; one stratum is the last resort."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 5, (2000, 2)).astype(float)
    x[:3, 0] = 9.0
    columns = learn_columns(x, ["a", "b"], rng)
    cells = [column.cell(x) for column in columns]
    u = rng.integers(0, 3, 2000)
    strata = learn_strata(columns, cells, u, 3, 20, exact())
    where = strata.of(cells, 2000)
    table = np.array([np.bincount(u[where == stratum], minlength=3) for stratum in range(strata.count)])
    assert table.min() >= 20
    assert strata.count > 5
    assert learn_strata(columns, cells, u, 3, 5000, exact()).count == 1


def test_an_uninformative_column_weighs_nothing():
    """Two columns that determine each other weigh half their bits each; noise weighs nothing and takes no part."""
    rng = np.random.default_rng(0)
    shared = rng.integers(0, 4, 5000).astype(float)
    other = np.where(rng.random(5000) < 0.9, shared, rng.integers(0, 4, 5000))
    x = np.column_stack([shared, other, rng.normal(size=5000)])
    columns = learn_columns(x, ["a", "b", "noise"], rng)
    u = rng.integers(0, 2, 5000)
    pairs = Pairs.count(columns, [column.cell(x) for column in columns], u, 2, exact())
    weights = importance(pairs)
    np.testing.assert_allclose(weights[:2], [column.entropy / 2 for column in columns[:2]])
    assert weights[2] == 0
    assert aloof(pairs).tolist() == [False, False, True]


def test_codebook_finds_separate_clouds_and_counts_its_questions():
    """Four clouds, four codes, two questions in each of twelve rounds."""
    rng = np.random.default_rng(0)
    middle = 5.0 * np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    points = middle[rng.integers(0, 4, 2000)] + rng.normal(size=(2000, 2)) * 0.1
    counts = exact()
    centres = learn_codebook(points, np.ones(2000), far_apart(points, 4, rng), 10.0, counts).numpy()
    np.testing.assert_allclose(np.sort(centres.sum(axis=1)), [0, 5, 5, 10], atol=0.1)
    assert counts.releases == 24
    assert len(far_apart(np.ones((50, 2)), 4, rng)) == 1


def test_noise_is_accounted_for():
    """ε is that of so many Gaussian releases; exact counts have none."""
    counts = Counts(20.0, np.random.default_rng(0))
    counts.record(100)
    assert counts.epsilon(1e-5) == gaussian_epsilon(20.0, 1e-5, releases=100)
    assert exact().epsilon() == float("inf")
    spread = counts.noised(np.zeros(20_000)).std()
    assert spread == pytest.approx(20.0, rel=0.03)
    with pytest.raises(InputError, match="noise"):
        Counts(-1.0, np.random.default_rng(0))
