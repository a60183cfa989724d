from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.special import ndtr, ndtri

from fedveil.certificates import (
    GaussianRelease,
    gaussian_accuracy_bound,
    gaussian_advantage_bound,
    gaussian_balanced_accuracy_bound,
    sigma_for_accuracy,
    sigma_for_advantage,
)
from fedveil.core.errors import InputError

priors_strategy = st.tuples(st.integers(2, 10), st.sampled_from([0.1, 1.0, 10.0]), st.integers(0, 2**32 - 1)).map(
    lambda spec: np.random.default_rng(spec[2]).dirichlet(np.full(spec[0], spec[1]))
)
ratios = st.floats(-4.0, 2.5).map(lambda exponent: 10.0**exponent)


def normal_density(z: np.ndarray) -> np.ndarray:
    return np.asarray(np.exp(-0.5 * z**2) / math.sqrt(2.0 * math.pi))


def bayes_accuracy_on_a_line(means: np.ndarray, weights: np.ndarray, priors: np.ndarray) -> float:
    """Integrate max_k π_k p_k(y): means[k, m] with weights[k, m] mixed for value k, σ = 1."""
    grid = np.linspace(means.min() - 8.0, means.max() + 8.0, 1501)
    densities = (weights[:, :, None] * normal_density(grid - means[:, :, None])).sum(axis=1)
    return float(np.trapezoid((priors[:, None] * densities).max(axis=0), grid))


def simplex_accuracy(values: int, ratio: float) -> float:
    """The best attacker's accuracy for equal priors and means on a simplex of radius `ratio`, σ = 1.

    Such means are, after a shift that changes nothing, a·e_k with a = ratio·√(K/(K−1)): the attacker takes the
    largest coordinate, which is right with probability ∫ φ(z − a) Φ(z)^{K−1} dz.
    """
    a = ratio * math.sqrt(values / (values - 1))
    z = np.linspace(-10.0, a + 10.0, 20_001)
    return float(np.trapezoid(normal_density(z - a) * ndtr(z) ** (values - 1), z))


def test_no_attacker_beats_the_bound_on_a_line() -> None:
    rng = np.random.default_rng(0)
    closest = 1.0
    for _ in range(2500):
        values, parts = int(rng.integers(2, 8)), int(rng.integers(1, 4))
        ratio = 10.0 ** rng.uniform(-2, 0.7)
        priors = rng.dirichlet(np.full(values, rng.choice([0.3, 1.0, 10.0])))
        means = ratio * rng.uniform(-1.0, 1.0, (values, parts))
        if rng.uniform() < 0.5:
            means = ratio * np.sign(means)
        weights = rng.dirichlet(np.ones(parts), size=values)
        best = bayes_accuracy_on_a_line(means, weights, priors)
        bound = gaussian_accuracy_bound(ratio, 1.0, priors)
        assert best <= bound + 1e-6
        closest = min(closest, bound - best)
    assert closest < 1e-3


def test_no_attacker_beats_the_bound_in_the_plane() -> None:
    rng = np.random.default_rng(1)
    axis = np.linspace(-9.0, 9.0, 121)
    cell = (axis[1] - axis[0]) ** 2
    x, y = np.meshgrid(axis, axis)
    for _ in range(300):
        values, ratio = int(rng.integers(2, 7)), rng.uniform(0.05, 3.0)
        priors = rng.dirichlet(np.full(values, rng.choice([1.0, 10.0])))
        angle = rng.uniform(0.0, 2.0 * math.pi, values)
        length = ratio * np.where(rng.uniform(size=values) < 0.7, 1.0, rng.uniform(size=values))
        densities = [
            p * normal_density(x - r * math.cos(a)) * normal_density(y - r * math.sin(a))
            for p, r, a in zip(priors, length, angle, strict=True)
        ]
        best = float(np.max(densities, axis=0).sum() * cell)
        assert best <= gaussian_accuracy_bound(ratio, 1.0, priors) + 1e-4


@given(priors_strategy, ratios, st.integers(0, 2**32 - 1))
def test_the_bound_is_above_every_point_of_the_simplex(priors: np.ndarray, ratio: float, seed: int) -> None:
    bound = gaussian_accuracy_bound(ratio, 1.0, priors)
    rng = np.random.default_rng(seed)
    points = np.vstack(
        [
            np.eye(len(priors)),
            priors,
            rng.dirichlet(np.ones(len(priors)), 30),
            rng.dirichlet(np.full(len(priors), 0.1), 30),
        ]
    )
    # 0 and 1 are kept out of Φ⁻¹, which only lowers the value compared with.
    reached = (priors * ndtr(ndtri(np.clip(points, 1e-300, 1.0 - 1e-16)) + ratio)).sum(axis=1)
    assert np.all(reached <= bound + 1e-12)
    assert priors.max() <= bound + 1e-15 <= 1.0 + 1e-14


@given(st.floats(0.001, 0.999), ratios)
def test_for_two_values_it_is_the_likelihood_ratio_test_exactly(prior: float, ratio: float) -> None:
    distance, log_odds = 2.0 * ratio, math.log(prior / (1.0 - prior))
    exact = prior * ndtr(distance / 2 + log_odds / distance) + (1.0 - prior) * ndtr(distance / 2 - log_odds / distance)
    assert gaussian_accuracy_bound(ratio, 1.0, [prior, 1.0 - prior]) == pytest.approx(exact, abs=1e-12)


@given(st.floats(0.01, 0.98), st.floats(0.05, 3.0))
def test_three_values_agree_with_a_naive_maximisation(first: float, ratio: float) -> None:
    priors = np.array([first, 0.7 * (1.0 - first), 0.3 * (1.0 - first)])

    def f(q: np.ndarray) -> np.ndarray:
        return np.asarray(ndtr(ndtri(q) + ratio))

    def inner(q0: float) -> float:
        shares = np.linspace(1e-9, 1.0 - 1e-9, 2001)
        tail = priors[1] * f((1.0 - q0) * shares) + priors[2] * f((1.0 - q0) * (1.0 - shares))
        return -float(priors[0] * f(np.array([q0]))[0] + tail.max())

    naive = -float(minimize_scalar(inner, bounds=(1e-12, 1.0 - 1e-12), method="bounded").fun)
    assert gaussian_accuracy_bound(ratio, 1.0, priors) == pytest.approx(naive, abs=5e-5)


@pytest.mark.parametrize("ratio", [0.05, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0])
def test_the_bound_is_tight(ratio: float) -> None:
    two_points = bayes_accuracy_on_a_line(np.array([[-ratio], [ratio]]), np.ones((2, 1)), np.array([0.5, 0.5]))
    assert gaussian_balanced_accuracy_bound(ratio, 1.0) == pytest.approx(two_points, rel=1e-4)
    assert gaussian_advantage_bound(ratio, 1.0) == pytest.approx(2.0 * two_points - 1.0, rel=0.02)
    for values in range(2, 11):
        best = simplex_accuracy(values, ratio)
        bound = gaussian_balanced_accuracy_bound(ratio, 1.0, values)
        assert best - 1e-9 <= bound <= 1.10 * best
        assert bound == pytest.approx(gaussian_accuracy_bound(ratio, 1.0, np.full(values, 1 / values)), abs=1e-12)


def test_repeated_releases_add_up_as_the_root_of_their_number() -> None:
    rng = np.random.default_rng(2)
    radius, sigma, releases = 1.0, 2.0, 4
    u = rng.integers(0, 2, 200_000)
    seen = (2 * u - 1)[:, None] * radius + sigma * rng.standard_normal((len(u), releases))
    accuracy = float(((seen.sum(axis=1) > 0.0) == (u == 1)).mean())
    assert accuracy == pytest.approx(gaussian_balanced_accuracy_bound(radius, sigma, releases=releases), abs=0.005)
    assert accuracy > gaussian_balanced_accuracy_bound(radius, sigma, releases=1) + 0.05
    assert gaussian_accuracy_bound(radius, sigma, [0.6, 0.4], 9) == pytest.approx(
        gaussian_accuracy_bound(3.0 * radius, sigma, [0.6, 0.4])
    )


@pytest.mark.parametrize("priors", [[0.5, 0.5], [0.7, 0.2, 0.1], [1.0], [0.5, 0.0, 0.5]])
def test_extremes(priors: list[float]) -> None:
    most = max(priors)
    assert gaussian_accuracy_bound(0.0, 1.0, priors) == most
    assert gaussian_accuracy_bound(0.0, 0.0, priors) == most
    assert gaussian_accuracy_bound(1.0, 0.0, priors) == 1.0
    assert gaussian_accuracy_bound(1.0, math.inf, priors) == most
    assert gaussian_accuracy_bound(1e9, 1.0, priors) == pytest.approx(1.0, abs=1e-12)
    assert gaussian_accuracy_bound(1e-12, 1.0, priors) == pytest.approx(most, abs=1e-11)
    assert gaussian_accuracy_bound(1e-300, 1.0, priors) == pytest.approx(most, abs=1e-12)


@given(priors_strategy, st.floats(0.01, 0.99), st.integers(1, 20))
def test_the_noise_for_a_target_is_enough_and_not_too_much(priors: np.ndarray, share: float, releases: int) -> None:
    most = float(priors.max())
    target = most + share * (1.0 - most)
    assume(most + 1e-6 < target < 1.0 - 1e-9)
    sigma = sigma_for_accuracy(target, 2.0, priors, releases)
    assert gaussian_accuracy_bound(2.0, sigma, priors, releases) <= target
    assert gaussian_accuracy_bound(2.0, 0.999 * sigma, priors, releases) > target


def test_the_noise_for_an_advantage_inverts_the_normal_quantile() -> None:
    assert sigma_for_advantage(0.2, 3.0, 4) == pytest.approx(2.0 * 3.0 / ndtri(0.6), rel=1e-6)
    assert sigma_for_advantage(0.2, 0.0) == 0.0
    with pytest.raises(InputError, match="largest prior"):
        sigma_for_accuracy(0.6, 1.0, [0.7, 0.3])
    with pytest.raises(InputError, match="strictly"):
        sigma_for_advantage(1.0, 1.0)


@pytest.mark.parametrize(
    ("radius", "sigma", "releases"), [(-1.0, 1.0, 1), (math.inf, 1.0, 1), (1.0, -1.0, 1), (1.0, 1.0, 0)]
)
def test_nonsense_is_refused(radius: float, sigma: float, releases: int) -> None:
    with pytest.raises(InputError, match="Gaussian channel"):
        gaussian_advantage_bound(radius, sigma, releases)
    with pytest.raises(InputError, match="Gaussian channel"):
        GaussianRelease(radius, sigma, releases)


def test_a_release_certifies_only_what_it_enforces_and_lists_its_assumptions() -> None:
    release = GaussianRelease(1.0, 2.0, releases_per_person=4, norm_enforced_at_release=True)
    accuracy = release.certify_accuracy([0.7, 0.3])
    assert accuracy.bound == gaussian_accuracy_bound(1.0, 2.0, [0.7, 0.3], 4)
    assert accuracy.direction == "upper"
    assert {"radius", "sigma", "releases per person", "norm enforced at release", "observer's priors"} <= set(
        accuracy.assumptions
    )
    assert any("updates" in item for item in accuracy.does_not_cover)
    assert release.certify_advantage().bound == pytest.approx(2.0 * ndtr(1.0) - 1.0)
    assert release.certify_balanced_accuracy(5).bound == pytest.approx(float(ndtr(ndtri(0.2) + 1.0)))
    assert release.certify_advantage(5).bound == pytest.approx((5 * float(ndtr(ndtri(0.2) + 1.0)) - 1) / 4)
    with pytest.raises(InputError, match="norm_enforced_at_release"):
        GaussianRelease(1.0, 2.0).certify_advantage()
