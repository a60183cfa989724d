"""P-values of the largest figure: exact for few victims, corrected for the number of attackers."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import hypergeom

from fedveil.attacks.p_values import p_value_of_largest
from fedveil.attacks.trial import Attempt, measured
from fedveil.core.measures import Predictions


def attempt(guesses, codes, parts=None):
    guesses, codes = np.asarray(guesses), np.asarray(codes)
    flat = np.full((len(codes), 2), np.log(0.5))
    said = Predictions(codes, guesses, guesses, flat, np.array([0.5, 0.5]))
    return Attempt("a", said, said, parts=parts)


def p_value(*attempts):
    return p_value_of_largest(measured(attempts, None, 200, np.random.default_rng(0)), None, 0)


def test_ten_victims_are_counted_exactly():
    """The normal approximation said .0013 for five of five and five of five; one arrangement in 252 does as well."""
    codes = [0] * 5 + [1] * 5
    assert p_value(attempt(codes, codes)) == pytest.approx(1 / 252)
    eight = [0, 0, 0, 0, 1, 0, 1, 1, 1, 1]
    assert p_value(attempt(eight, codes)) == pytest.approx(float(hypergeom.sf(3, 10, 5, 5)))


def test_the_smallest_is_multiplied_by_the_number_of_attackers():
    codes = [0] * 5 + [1] * 5
    worse = [1] * 5 + [0] * 5
    assert p_value(attempt(codes, codes), attempt(worse, codes), attempt(worse, codes)) == pytest.approx(3 / 252)


def test_each_half_of_a_fresh_attacker_is_judged_by_itself():
    codes = np.arange(20) % 2
    half = np.repeat([0, 1], 10)
    assert p_value(attempt(codes, codes, half)) == pytest.approx(2 / 252)


def test_many_victims_of_three_values_use_the_normal_approximation():
    rng = np.random.default_rng(0)
    codes = rng.integers(3, size=3000)
    guesses = np.where(rng.random(3000) < 0.1, codes, rng.integers(3, size=3000))
    flat = np.full((3000, 3), np.log(1 / 3))
    said = Predictions(codes, guesses, guesses, flat, np.full(3, 1 / 3))
    small = p_value(Attempt("a", said, said))
    nothing = p_value(Attempt("a", said, Predictions(codes, rng.permutation(guesses), guesses, flat, said.prior)))
    assert small < 1e-6
    assert nothing > 0.001
