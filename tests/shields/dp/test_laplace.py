"""DP-Laplace: the noise is as stated, ε is the closed form, and no attacker beats the certificates."""

import math

import numpy as np
import pytest
import torch
from dp_accounting.pld import privacy_loss_distribution as pld
from scipy.stats import kstest, laplace

from fedveil.certificates.differential_privacy import composed_epsilon
from fedveil.core import plugins
from fedveil.core.errors import InputError
from fedveil.core.randomness import torch_generator
from fedveil.shields import Context, Kind, Message, ShieldError
from fedveil.shields.dp.laplace import DPLaplace


def sent(shield, rows, kind=Kind.UPDATE, seed=0):
    return shield.apply(Message(kind, rows), Context(0, 1, torch_generator(seed, "shield")))[0].values


def test_noise_is_laplace_of_that_scale():
    noise = sent(DPLaplace(0.7), torch.zeros(1, 50_000, dtype=torch.float64))[0].numpy()
    assert kstest(noise, laplace(scale=0.7).cdf).pvalue > 0.01
    assert noise.std() == pytest.approx(0.7 * math.sqrt(2), rel=0.02)


@pytest.mark.parametrize(("norm", "order"), [("L1", 1), ("L2", 2)])
def test_rows_are_clipped_in_the_norm_named(norm, order):
    rows = torch.linspace(0.01, 4.0, 50)[:, None] * torch.randn(50, 20, generator=torch_generator(1, "rows"))
    quiet = sent(DPLaplace(1e-9, clip=1.5, clipped_in=norm), rows)
    torch.testing.assert_close(
        torch.linalg.vector_norm(quiet, order, dim=1),
        torch.linalg.vector_norm(rows, order, dim=1).clamp_max(1.5),
        rtol=1e-4,
        atol=1e-6,
    )
    torch.testing.assert_close(sent(DPLaplace(1e-9, clip=None), rows), rows)


def test_epsilon_spent_is_the_closed_form():
    assert DPLaplace(4.0, clip=1.0).spent(10).bound == pytest.approx(10 * 2 / 4)
    by_l2 = DPLaplace(4.0, clip=1.0, clipped_in="L2", dimensions=100)
    assert by_l2.spent(10).bound == pytest.approx(10 * 2 * 10 / 4)
    assert DPLaplace(4.0).spent(0).bound == 0
    assert math.isinf(DPLaplace(4.0, clip=None).spent(1).bound)
    assert "guarantees nothing" in str(DPLaplace(4.0, clip=None).spent(1))
    with pytest.raises(InputError, match="give dimensions"):
        DPLaplace(4.0, clipped_in="L2").spent(1)


@pytest.mark.parametrize(("epsilon", "k", "delta"), [(0.1, 100, 1e-5), (0.5, 20, 1e-6), (2.0, 5, 1e-3), (0.01, 3, 0.1)])
def test_composition_is_the_accountant_s_of_randomised_response(epsilon, k, delta):
    composed = composed_epsilon(epsilon, k, delta)
    assert composed <= k * epsilon
    single_release = pld.from_randomized_response(2 / (1 + math.exp(epsilon)), 2, value_discretization_interval=1e-5)
    assert composed == pytest.approx(single_release.self_compose(k).get_epsilon_for_delta(delta), rel=1e-3, abs=2e-3)
    exact = pld.from_laplace_mechanism(1 / epsilon, value_discretization_interval=1e-4).self_compose(k)
    assert exact.get_epsilon_for_delta(delta) <= composed + 1e-2  # one-dimensional Laplace is no worse than the bound


def test_calibration_reaches_the_target_exactly():
    for settings in ({}, {"clipped_in": "L2", "dimensions": 64}):
        shield = DPLaplace(epsilon=3.0, releases=20, clip=0.5, **settings)
        assert shield.spent().bound == pytest.approx(3.0)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "give either scale"),
        ({"scale": -1.0}, "scale must be above 0"),
        ({"scale": 1.0, "clip": -1.0}, "clip must be above 0"),
        ({"scale": 1.0, "clipped_in": "L3"}, "clipped_in must be L1 or L2"),
        ({"scale": 1.0, "dimensions": 0}, "at least 1"),
        ({"epsilon": 1.0, "clip": None}, "cannot be reached without clip"),
        ({"epsilon": 0.0}, "cannot be reached"),
        ({"epsilon": float("inf")}, "cannot be reached"),
        ({"epsilon": 1.0, "clipped_in": "L2"}, "give dimensions"),
        ({"scale": 1.0, "releases": 1.5}, "whole number"),
    ],
)
def test_bad_settings_are_refused_in_one_line(settings, words):
    with pytest.raises(InputError, match=words) as fault:
        DPLaplace(**settings)
    assert "\n" not in str(fault.value)


def test_it_fails_closed():
    for clip in (1.0, None):
        with pytest.raises(ShieldError, match="nothing is sent"):
            sent(DPLaplace(1.0, clip=clip), torch.tensor([[1.0, float("nan")]]))
    with pytest.raises(ShieldError, match="3 numbers, but dimensions=4"):
        sent(DPLaplace(1.0, clipped_in="L2", dimensions=4), torch.zeros(1, 3))
    with pytest.raises(InputError, match="delta must lie"):
        composed_epsilon(1.0, 2, 1.0)


def test_only_what_is_bounded_is_certified():
    assert DPLaplace(1.0).certificates(2, (0.5, 0.5)) == ()
    assert DPLaplace(1.0, clip=None, place="input").certificates(2, (0.5, 0.5)) == ()
    unknown = DPLaplace(1.0, place="input", clipped_in="L2")
    assert unknown.certificates(2, (0.5, 0.5)) == ()
    assert not unknown.certifies
    advantage, balanced, accuracy = DPLaplace(2.0, place="input").certificates(2, (0.7, 0.3))
    assert advantage.quantity == "advantage"
    assert advantage.bound == pytest.approx((math.e - 1) / (math.e + 1))
    assert balanced.bound == pytest.approx(math.e / (math.e + 1))
    assert accuracy.bound == pytest.approx(0.7 * math.e / (0.7 * math.e + 0.3))


@pytest.mark.parametrize("dimensions", [1, 4])
@pytest.mark.parametrize("values", [2, 3])
def test_the_exact_optimal_attacker_never_beats_the_certificates(dimensions, values):
    """Corners of the L1 ball, by u: the Laplace likelihood is known, and its best guess is scored."""
    n = 60_000
    priors = np.array([0.5, 0.3, 0.2])[:values] / np.array([0.5, 0.3, 0.2])[:values].sum()
    u = np.random.default_rng(1).choice(values, n, p=priors)
    corners = torch.zeros(values, dimensions, dtype=torch.float64)
    for value, (column, sign) in enumerate([(0, 1.0), (0, -1.0), (dimensions - 1, 0.5)][:values]):
        corners[value, column] = sign
    shield = DPLaplace(1.6, clip=1.0, place="representation")
    seen = sent(shield, 9 * corners[u] if values == 2 else corners[u], Kind.REPRESENTATION)
    log_likelihood = -(seen[:, None] - corners).abs().sum(dim=2).numpy() / 1.6
    accuracy = float(((log_likelihood + np.log(priors)).argmax(axis=1) == u).mean())
    guess = log_likelihood.argmax(axis=1)
    balanced = float(np.mean([(guess == k)[u == k].mean() for k in range(values)]))
    advantage, even, plain = shield.certificates(values, priors)
    slack = 4 / math.sqrt(n)
    assert accuracy <= plain.bound + slack
    assert balanced <= even.bound + 2 * slack
    assert (values * balanced - 1) / (values - 1) <= advantage.bound + 4 * slack
    if values == 2:  # opposite corners: total variation 1 − e^{−ε/2}, in closed form
        assert 2 * balanced - 1 == pytest.approx(1 - math.exp(-1 / 1.6), abs=4 * slack)


def test_it_is_registered():
    assert plugins.load("fedveil.shields", "dp-laplace") is DPLaplace
