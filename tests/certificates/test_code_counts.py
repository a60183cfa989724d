"""The bound on the best observer of a code holds, and is as tight as the count allows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from fedveil.certificates.code_counts import (
    balanced_accuracy_bound_from_chances,
    best_balanced_accuracy_bound,
    certify_chances,
    certify_codes,
)
from fedveil.core.errors import InputError


def test_it_covers_the_truth_as_often_as_it_says():
    """Three values, five codes, laws known: the bound is below the truth in no more than α of the draws."""
    rng = np.random.default_rng(0)
    laws = rng.dirichlet(np.ones(5), 3)
    truth = laws.max(axis=0).sum() / 3
    u = np.repeat([0, 1, 2], [60, 200, 400])
    misses = 0
    for _ in range(400):
        codes = np.concatenate([rng.choice(5, (u == value).sum(), p=laws[value]) for value in range(3)])
        misses += best_balanced_accuracy_bound(codes, u, 3, 0.2) < truth
    assert misses / 400 <= 0.2


def test_binary_closed_form():
    """Equal histograms give one half plus the slack, disjoint ones give 1."""
    u = np.repeat([0, 1], 1000)
    slack = np.sqrt(np.log(20) * (2 / 1000) / 2) / 2
    assert best_balanced_accuracy_bound(np.tile([0, 1], 1000), u, 2, 0.05) == pytest.approx(0.5 + slack)
    assert best_balanced_accuracy_bound(u, u, 2, 0.05) == 1.0


def test_certificate_says_what_it_rests_on():
    """The map was fixed beforehand; counts that were released, and anything else that is shown, are not covered."""
    certificate = certify_codes(np.tile([0, 1], 500), np.repeat([0, 1], 500), 2, 0.9, does_not_cover=("age",))
    assert certificate.confidence == 0.9
    assert certificate.direction == "upper"
    assert certificate.assumptions["codes seen"] == 2
    assert "age" in certificate.does_not_cover
    assert "map" in certificate.assumptions
    assert str(certificate).startswith("CERTIFIED balanced accuracy")


@pytest.mark.parametrize(
    ("codes", "u", "values", "message"),
    [
        ([0, 1], [0, 0], 2, "no held-out people"),
        ([0], [0, 1], 2, "one code and one value"),
        ([0, 1], [0, 2], 2, "numbered from 0"),
        ([0, 1], [0, 0], 1, "two values"),
    ],
)
def test_mistakes(codes, u, values, message):
    """Each is refused in one line."""
    with pytest.raises(InputError, match=message):
        best_balanced_accuracy_bound(codes, u, values, 0.05)


@settings(max_examples=15)
@given(
    st.integers(2, 4),
    st.integers(2, 40),
    st.floats(0.0, 1.0),
    st.sampled_from([0.05, 0.2]),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
def test_coverage_over_random_laws(values, codes, apart, alpha, soft, seed):
    """Laws of any distance, groups of unequal size, counts and chances: misses no more often than promised.

    Chances are a law of their own for each of two kinds of people, so that p_v is their known mixture.
    """
    rng = np.random.default_rng(seed)
    common = rng.dirichlet(np.ones(codes))
    kinds = (1 - apart) * common + apart * rng.dirichlet(np.ones(codes), (values, 2))  # (values, kinds, codes)
    truth = kinds.mean(axis=1).max(axis=0).sum() / values
    sizes = rng.integers(20, 300, values)
    misses = 0
    for _ in range(200):
        sums = np.zeros((codes, values))
        for value, size in enumerate(sizes):
            first = rng.binomial(size, 0.5)
            split = np.array([first, size - first])
            sums[:, value] = split @ kinds[value] if soft else rng.multinomial(size, kinds[value].mean(axis=0))
        misses += balanced_accuracy_bound_from_chances(sums, alpha) < truth
    assert misses <= binom.ppf(1 - 1e-6, 200, alpha)


def test_chances_are_tighter_than_draws():
    """Everybody has the same chances of 100 codes: nothing leaks, and the sums show it; drawn codes scatter."""
    rng = np.random.default_rng(0)
    u = np.repeat([0, 1], [3000, 6000])
    chances = rng.dirichlet(np.ones(100))
    drawn = best_balanced_accuracy_bound(rng.choice(100, 9000, p=chances), u, 2, 0.05)
    summed = balanced_accuracy_bound_from_chances(np.outer(chances, [3000, 6000]), 0.05)
    assert summed == pytest.approx(0.5 + np.sqrt(np.log(20) * (1 / 3000 + 1 / 6000) / 2) / 2)
    assert drawn > summed + 0.02
    assert certify_chances(np.outer(chances, [3000, 6000])).assumptions["people counted"] == 9000


@pytest.mark.parametrize(
    ("sums", "message"),
    [
        ([[1.0], [2.0]], "codes, values"),
        ([[1.0, 0.0]], "no held-out"),
        ([[1.5, 1.0]], "sum to 1"),
        ([[-1.0, 1.0]], "neg"),
    ],
)
def test_mistakes_in_chances(sums, message):
    """Each is refused in one line."""
    with pytest.raises(InputError, match=message):
        balanced_accuracy_bound_from_chances(sums, 0.05)
