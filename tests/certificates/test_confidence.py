from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.stats import binom

from fedveil.certificates import confidence as c
from fedveil.core.entropy import conditional_entropy, entropy
from fedveil.core.errors import InputError

seeds = st.integers(0, 2**32 - 1)


@given(st.integers(2, 12), seeds)
def test_no_law_has_more_variance_of_information(values: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    laws = [rng.dirichlet(np.full(values, shape)) for shape in (0.1, 0.5, 1.0, 5.0) for _ in range(5)]
    r = rng.uniform(0.0, 1.0)
    laws.append(np.append(np.full(values - 1, r / (values - 1)), 1.0 - r))
    for law in laws:
        law = law[law > 1e-300]
        mean = -(law * np.log(law)).sum()
        assert (law * np.log(law) ** 2).sum() - mean**2 <= c.largest_information_variance(values)


@given(st.integers(2, 6), st.integers(1, 4), seeds, st.floats(0.01, 0.95))
def test_the_surprise_is_sub_gamma_above_and_sub_gaussian_below(values: int, given_: int, seed: int, s: float) -> None:
    """The inequality of cumulants on which both entropy bounds rest, computed exactly."""
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.ones(given_))
    rows = rng.dirichlet(np.full(values, rng.choice([0.2, 1.0])), size=given_).clip(1e-12)
    rows /= rows.sum(axis=1, keepdims=True)
    joint = weights[:, None] * rows
    surprise = -np.log(rows)
    mean = (joint * surprise).sum()
    between = 0.25 * math.log(values) ** 2 if given_ > 1 else 0.0
    variance = c.largest_information_variance(values) + between
    upper = math.log((joint * np.exp(s * (surprise - mean))).sum())
    assert upper <= variance * (-math.log(1.0 - s) - s) + 1e-12
    if given_ == 1:
        lower = math.log((joint * np.exp(-s * (surprise - mean))).sum())
        assert lower <= 0.5 * variance * s**2 + 1e-12


def test_entropy_bounds_cover_and_are_not_vacuous() -> None:
    rng = np.random.default_rng(0)
    alpha, below, above, above_given, plug_in_above = 0.3, 0, 0, 0, 0
    trials = 400
    for _ in range(trials):
        values, cells, n = 4, 2, 150
        joint = rng.dirichlet(np.full(values * cells, 1.0))
        draw = rng.choice(values * cells, size=n, p=joint)
        labels, given_ = draw // cells, draw % cells
        table = joint.reshape(values, cells)
        truth, truth_given = entropy(table.sum(axis=1)), conditional_entropy(table)
        above += c.conditional_entropy_lower_bound(labels, None, values, alpha) > truth
        above_given += c.conditional_entropy_lower_bound(labels, given_, values, alpha) > truth_given
        below += c.entropy_upper_bound(labels, values, alpha) < truth
        plug_in_above += c.plug_in_conditional_entropy(labels, given_) > truth_given
    assert max(below, above, above_given) <= alpha * trials
    # The plain plug-in is no lower bound: without the slack the test above would fail.
    assert plug_in_above > 0.2 * trials
    n = 20_000
    labels, given_ = rng.integers(0, 10, n), rng.integers(0, 3, n)
    assert c.conditional_entropy_lower_bound(labels, given_, 10, 0.025) > math.log2(10) - 0.1
    skewed = (rng.uniform(size=n) < 0.1).astype(int)
    assert c.entropy_upper_bound(skewed, 2, 0.025) < entropy([0.1, 0.9]) + 0.04


LAWS = [(2, 40, 0.3), (3, 25, 0.6), (5, 400, 0.05), (10, 2000, 0.01)]
"""Values, records, failure probability: small samples and large failures, where every term of a slack shows."""


def most_variance_naively(values: int) -> float:
    """Search the family of laws that holds the maximum: K−1 values share r, the last has the rest."""

    def negative(r: float) -> float:
        law = np.array([r / (values - 1)] * (values - 1) + [1.0 - r])
        surprise = -np.log(law)
        return -float((law * surprise**2).sum() - (law * surprise).sum() ** 2)

    return -min(float(minimize_scalar(negative, bounds=ends, method="bounded").fun) for ends in ((0, 0.5), (0.5, 1)))


def entropy_naively(labels: list[int]) -> float:
    """Return the plug-in entropy in nats."""
    return -sum(times / len(labels) * math.log(times / len(labels)) for times in Counter(labels).values())


@pytest.mark.parametrize(("values", "n", "alpha"), LAWS)
def test_the_lower_bound_on_entropy_is_the_formula_term_by_term(values: int, n: int, alpha: float) -> None:
    rng = np.random.default_rng(values)
    labels = rng.permutation(np.arange(n) % values).tolist()  # near the most entropy: nothing is cut to zero
    given_ = rng.integers(0, 2, n).tolist()
    variance, depth = most_variance_naively(values), math.log(1 / alpha)
    slack = math.sqrt(2 * variance * depth / n) + depth / n
    assert entropy_naively(labels) > slack
    bound = c.conditional_entropy_lower_bound(labels, None, values, alpha)
    assert bound * math.log(2) == pytest.approx(entropy_naively(labels) - slack, rel=1e-4)
    cells = [[label for label, cell in zip(labels, given_, strict=True) if cell == value] for value in (0, 1)]
    plug_in = sum(len(cell) / n * entropy_naively(cell) for cell in cells)
    slack = math.sqrt(2 * (variance + math.log(values) ** 2 / 4) * depth / n) + depth / n
    assert plug_in > slack
    bound = c.conditional_entropy_lower_bound(labels, given_, values, alpha)
    assert bound * math.log(2) == pytest.approx(plug_in - slack, rel=1e-4)


@pytest.mark.parametrize(("values", "n", "alpha"), LAWS)
def test_the_upper_bound_on_entropy_is_the_formula_term_by_term(values: int, n: int, alpha: float) -> None:
    labels = [0] * n  # no entropy seen: the whole bound is slack
    low, high = float(values - 1), 1e4
    for _ in range(200):  # halve until the tail e^{−x}(e·x/(K−1))^{K−1} is half of alpha
        middle = (low + high) / 2
        log_tail = -middle + (values - 1) * math.log(math.e * middle / (values - 1))
        low, high = (middle, high) if log_tail > math.log(alpha / 2) else (low, middle)
    slack = math.sqrt(2 * most_variance_naively(values) * math.log(2 / alpha) / n) + low / n
    bound = c.entropy_upper_bound(labels, values, alpha)
    assert bound * math.log(2) == pytest.approx(min(slack, math.log(values)), rel=1e-4)
    assert bound < math.log2(values) or n < 100


@pytest.mark.parametrize("n", [1, 2, 5, 20, 100])
@pytest.mark.parametrize("alpha", [0.05, 0.3, 0.7])
def test_entropy_bounds_cover_every_binary_law_exactly(n: int, alpha: float) -> None:
    counts = np.arange(n + 1)
    samples = [np.repeat([0, 1], [n - k, k]) for k in counts]
    low = np.array([c.conditional_entropy_lower_bound(sample, None, 2, alpha) for sample in samples])
    high = np.array([c.entropy_upper_bound(sample, 2, alpha) for sample in samples])
    for p in [*np.geomspace(1e-6, 0.1, 60), *np.linspace(0.1, 0.5, 30)]:  # rare values surprise the most
        mass, truth = binom.pmf(counts, n, p), entropy([p, 1 - p])
        assert mass[low > truth + 1e-12].sum() <= alpha + 1e-9
        assert mass[high < truth - 1e-12].sum() <= alpha + 1e-9


def test_empirical_bernstein_covers_a_skewed_mean_and_gains_from_small_variance() -> None:
    rng = np.random.default_rng(1)
    mean, alpha, trials = 0.02, 0.2, 500
    failures = sum(
        c.mean_upper_bound((rng.uniform(size=80) < mean).astype(float), 0.0, 1.0, alpha) < mean for _ in range(trials)
    )
    assert failures <= alpha * trials
    quiet = 0.5 + 0.001 * rng.standard_normal(20_000).clip(-3, 3)
    hoeffding = 0.5 + math.sqrt(math.log(1 / 0.05) / (2 * 20_000))
    assert c.mean_upper_bound(quiet, 0.0, 1.0, 0.05) < hoeffding
    sample, depth = np.array([0.1, 0.5, 0.3] * 20), math.log(2 / 0.5)
    by_hand = 0.3 + math.sqrt(2 * sample.var(ddof=1) * depth / 60) + 7 * 2.0 * depth / (3 * 59)
    assert c.mean_upper_bound(sample, -1.0, 1.0, 0.5) == pytest.approx(by_hand)
    assert c.mean_upper_bound([0.1, 0.5], 0.0, 1.0, 0.01) == 1.0


@given(st.integers(1, 60), st.floats(1e-9, 1.0 - 1e-9), st.floats(0.01, 0.4))
def test_clopper_pearson_covers_exactly(trials: int, p: float, alpha: float) -> None:
    counts = np.arange(trials + 1)
    mass = binom.pmf(counts, trials, p)
    bounds = np.array([c.proportion_bounds(int(k), trials, alpha) for k in counts])
    assert mass[bounds[:, 0] > p + 1e-12].sum() <= alpha + 1e-9
    assert mass[bounds[:, 1] < p - 1e-12].sum() <= alpha + 1e-9


def test_without_trials_a_proportion_may_be_anything() -> None:
    assert c.proportion_bounds(0, 0, 0.05) == (0.0, 1.0)


def test_nonsense_is_refused() -> None:
    with pytest.raises(InputError, match="must lie in"):
        c.mean_upper_bound([0.0, 2.0], 0.0, 1.0, 0.05)
    with pytest.raises(InputError, match="two records"):
        c.mean_upper_bound([0.0], 0.0, 1.0, 0.05)
    with pytest.raises(InputError, match="failure probability"):
        c.proportion_bounds(1, 2, 0.0)
    with pytest.raises(InputError, match="successes"):
        c.proportion_bounds(3, 2, 0.05)
