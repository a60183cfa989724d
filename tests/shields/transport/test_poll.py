"""A poll sums devices' answers, clips each person, and accounts exactly for what all sums reveal together."""

import math

import numpy as np
import pytest
from scipy.special import ndtr

from fedveil.certificates import gaussian_epsilon
from fedveil.core.errors import InputError
from fedveil.shields.transport.poll import Poll, Question, budget, gaussian_advantage

NUMBERS = Question("numbers", lambda rows: (np.ones((len(rows), 1)), rows), bound=2.0)


def poll(devices, mu=math.inf, **settings):
    return Poll(devices, mu, np.random.default_rng(0), **settings)


def test_the_sum_does_not_depend_on_how_people_are_spread_over_devices():
    """One device or seven: the same sum; nobody weighs more than the bound."""
    rows = np.random.default_rng(0).normal(size=(70, 3))
    rows[0] *= 1e6
    clipped = rows * np.minimum(1, 2 / np.linalg.norm(rows, axis=1))[:, None]
    for devices in ([rows], np.array_split(rows, 7)):
        np.testing.assert_allclose(poll(devices).ask(NUMBERS, 1.0), clipped.sum(axis=0)[None], rtol=1e-12)


@pytest.mark.parametrize("local", [False, True])
def test_noise_is_what_the_share_of_the_budget_asks_for(local):
    """σ = bound/(μ√share) on the sum of shares; on every single answer where each is protected by itself."""
    wide = Question("wide", lambda rows: (np.zeros((len(rows), 1)), np.zeros((len(rows), 20_000))), bound=3.0)
    asked = poll([np.zeros((2, 1))] * 4, mu=0.5, local=local, listen=True)
    spread = asked.ask(wide, 0.25).std()
    sigma = 3.0 / (0.5 * 0.5)
    assert spread == pytest.approx(sigma * (2 if local else 1), rel=0.03)
    assert asked.heard[0].noise == pytest.approx(sigma * (2 if local else 1))
    assert asked.heard[0].parts[0].std() == pytest.approx(sigma if local else sigma / 2, rel=0.03)
    assert asked.upload == 8 * 20_000


def test_epsilon_is_that_of_the_questions_one_by_one():
    """Different bounds and shares: μ² adds up; the same ε as so many releases of equal noise."""
    asked = poll([np.zeros((1, 3))], mu=1.0)
    for _ in range(10):
        asked.ask(NUMBERS, 0.1)
    assert asked.epsilon(1e-6) == pytest.approx(gaussian_epsilon(math.sqrt(10), 1e-6, releases=10))
    assert asked.attribute_mu == pytest.approx(2.0)
    assert poll([np.zeros((1, 3))]).epsilon() == math.inf
    for epsilon in (0.5, 2.0, 8.0):
        assert epsilon * 0.99 < gaussian_epsilon(1 / budget(epsilon), 1e-5) <= epsilon


def test_advantage_in_closed_form():
    """Two unit Gaussians μ apart: the best test's advantage."""
    assert gaussian_advantage(1.0) == pytest.approx(2 * ndtr(0.5) - 1)
    assert gaussian_advantage(math.inf) == 1.0


def test_mistakes():
    """An empty poll, no budget, more than the budget."""
    with pytest.raises(InputError, match="no device"):
        poll([])
    with pytest.raises(InputError, match="budget must be above 0"):
        poll([1], mu=0.0)
    with pytest.raises(InputError, match="epsilon must be above 0"):
        budget(-1.0)
    asked = poll([np.zeros((1, 3))], mu=1.0)
    asked.ask(NUMBERS, 0.9)
    with pytest.raises(InputError, match=r"0\.1 is left"):
        asked.ask(NUMBERS, 0.2)
