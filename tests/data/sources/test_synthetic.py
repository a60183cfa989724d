"""The stated leakage against an independent computation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

import fedveil.data
from fedveil.core.entropy import entropy, plug_in_mutual_information
from fedveil.core.errors import InputError
from fedveil.data.sources.synthetic import (
    confusion_bits,
    confusion_for_bits,
    gaussian_bayes_accuracy,
    gaussian_bits,
    gaussian_for_bits,
)


def drawn(**options):
    return fedveil.data.load("synthetic", target="y", sensitive="u", **options)


@pytest.mark.parametrize(("distance", "prior"), [(0.3, 0.5), (1.7, 0.8), (4.0, 0.05), (8.0, 0.5)])
def test_gaussian_bits_agree_with_adaptive_quadrature_of_the_divergence(distance, prior):
    def integrand(r: float) -> float:
        density_1, density_0 = norm.pdf(r, distance / 2), norm.pdf(r, -distance / 2)
        mix = prior * density_1 + (1 - prior) * density_0
        parts = ((prior, density_1), (1 - prior, density_0))
        return sum(p * f * np.log2(f / mix) for p, f in parts if f > 0 and mix > 0)

    middle = [-distance / 2, 0.0, distance / 2]
    expected = quad(integrand, -distance / 2 - 10, distance / 2 + 10, points=middle, epsabs=1e-12, limit=400)[0]
    assert gaussian_bits(distance, prior) == pytest.approx(expected, abs=1e-9)


@settings(max_examples=40, deadline=None)
@given(st.floats(0.02, 0.98), st.floats(0.01, 0.97))
def test_the_distance_solves_for_the_bits(prior, share):
    bits = share * entropy([prior, 1 - prior])
    assert gaussian_bits(gaussian_for_bits(bits, prior), prior) == pytest.approx(bits, abs=1e-9)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(0.05, 1.0), min_size=2, max_size=8), st.floats(0.0, 1.0))
def test_the_error_solves_for_the_bits(weights, share):
    prior = np.array(weights) / np.sum(weights)
    bits = share * entropy(prior)
    assert confusion_bits(confusion_for_bits(bits, prior), prior) == pytest.approx(bits, abs=1e-8)


@pytest.mark.parametrize("bits", [0.0, 1e-300, 1e-17, 1e-12])
def test_next_to_nothing_is_solved_too(bits):
    assert gaussian_for_bits(bits, 1 / 3) == pytest.approx(0.0, abs=1e-4)
    assert confusion_for_bits(bits, np.array([2 / 3, 1 / 3])) == pytest.approx(0.5, abs=1e-4)


def test_bayes_accuracy_of_gaussians():
    assert gaussian_bayes_accuracy(2.0, 0.5) == pytest.approx(norm.cdf(1.0))
    rng = np.random.default_rng(0)
    u = rng.random(400_000) < 0.8
    r = np.where(u, 0.6, -0.6) + rng.standard_normal(len(u))
    best = max(np.mean((r > t) == u) for t in np.linspace(-3, 1, 81))
    assert gaussian_bayes_accuracy(1.2, 0.8) == pytest.approx(best, abs=0.002)


def test_a_binary_attribute_is_as_readable_as_stated():
    data = drawn(n=40_000, bits=0.4, prior=0.3)
    x, u = data.x, data.attributes["u"].codes
    direction = x[u == 1].mean(axis=0) - x[u == 0].mean(axis=0)
    distance = data.facts["distance"]
    assert np.linalg.norm(direction) == pytest.approx(distance, abs=0.05)
    score = x @ direction / np.linalg.norm(direction)
    centre = (score[u == 1].mean() + score[u == 0].mean()) / 2
    guess = score - centre > np.log(0.7 / 0.3) / distance
    assert np.mean(guess == u) == pytest.approx(data.facts["bayes_accuracy"], abs=0.01)
    assert data.facts["prior"] == 0.7
    assert u.mean() == pytest.approx(0.3, abs=0.01)


def test_a_many_valued_attribute_is_as_readable_as_stated():
    from sklearn.neighbors import NearestCentroid

    prior = [0.4, 0.3, 0.2, 0.1]
    data = drawn(n=20_000, values=4, bits=0.9, prior=prior, dimension=8)
    u = data.attributes["u"].codes
    guess = NearestCentroid().fit(data.x, u).predict(data.x)  # symbols are far apart, so this reads the symbol
    assert np.mean(guess == u) == pytest.approx(data.facts["bayes_accuracy"], abs=0.02)
    assert plug_in_mutual_information(guess, u) == pytest.approx(0.9, abs=0.03)
    assert data.facts["bits"] == pytest.approx(0.9, abs=1e-9)


def test_the_targets_relation_is_as_stated():
    data = drawn(n=50_000, overlap=0.6, values=4, bits=0.5)
    assert data.y is not None
    measured = plug_in_mutual_information(data.y.codes, data.attributes["u"].codes)
    assert measured == pytest.approx(data.facts["target_bits"], abs=0.01)
    independent = drawn(n=50_000)
    assert independent.facts["target_bits"] == pytest.approx(0.0, abs=1e-12)
    assert independent.y is not None
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=1e4, max_iter=1000).fit(independent.x[:5000], independent.y.codes[:5000])
    assert model.score(independent.x, independent.y.codes) > 0.97


def test_seeds_and_groups():
    first, same, other = (drawn(seed=seed, groups=12) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.x, same.x)
    assert not np.array_equal(first.x, other.x)
    assert first.groups is not None
    for group in range(12):
        assert len(np.unique(first.split[first.groups == group])) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bits": 1.0}, "between 0 and H"),
        ({"bits": -0.1}, "between 0 and H"),
        ({"bits": float("nan")}, "between 0 and H"),
        ({"values": 1}, "values must be at least 2"),
        ({"values": 3, "channel": "gaussian"}, "for 2 values"),
        ({"prior": 1.0}, "probabilities above 0"),
        ({"values": 3, "prior": [0.5, 0.5]}, "must be 3 probabilities"),
        ({"dimension": 1}, "too small"),
        ({"channel": "x"}, "channel must be"),
        ({"overlap": 2.0}, "overlap"),
        ({"groups": 2}, "groups must"),
        ({"n": 3}, "at least 10"),
    ],
)
def test_faulty_options(options, message):
    with pytest.raises(InputError, match=message):
        drawn(**options)
