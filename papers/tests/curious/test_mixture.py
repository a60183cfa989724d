"""Mixtures of two classifiers: eq. 1 and 2, vectors, real digits, and what is refused."""

import numpy as np
import pytest
from fedveil_papers.curious.mixture import Mixture
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from fedveil.audit.outputs import Outputs
from fedveil.core.errors import InputError
from fedveil.data import Attribute


def random_probabilities(n, values, seed, sharpness=6.0):
    scores = np.exp(sharpness * np.random.default_rng(seed).random((n, values)))
    return scores / scores.sum(axis=1, keepdims=True)


def test_the_hard_scalar_mixture_takes_the_four_values_of_equation_1():
    z_y, z_s = np.array([0.2, 0.2, 0.9, 0.9]), np.array([0.4, 0.6, 0.4, 0.6])
    for beta_y in (0.6, 0.8, 0.95):
        mixed = Mixture(beta_y).mix_scalar(z_y, z_s)
        assert mixed == pytest.approx([0, 1 - beta_y, beta_y, 1])
        y, s = Mixture(beta_y).read_scalar(mixed)
        assert y.tolist() == [0, 0, 1, 1]
        assert s.tolist() == [0, 1, 0, 1]


def test_the_sub_ranges_of_equation_2_hold_their_left_ends():
    y, s = Mixture().read_scalar([0, 0.0999, 0.1, 0.4999, 0.5, 0.8999, 0.9, 1], 0.1)
    assert y.tolist() == [0, 0, 0, 0, 1, 1, 1, 1]
    assert s.tolist() == [0, 0, 1, 1, 0, 0, 1, 1]


def test_the_normal_scalar_mixture_is_the_weighted_sum_and_loses_where_z_y_is_uncertain():
    mixture = Mixture(0.8, hard=False)
    assert mixture.mix_scalar([0.3], [0.6]) == pytest.approx([0.8 * 0.3 + 0.2 * 0.6])
    # z_y = .3 and s = 0 for certain: .24 lies in the range of (0, 1).
    assert [int(guess[0]) for guess in mixture.read_scalar(mixture.mix_scalar([0.3], [0.0]), 0.1)] == [0, 1]


def test_vectors_of_two_values_are_read_as_the_sub_ranges_are():
    z_y, z_s = (np.random.default_rng(seed).random(500) for seed in (0, 1))
    for hard in (True, False):
        mixture = Mixture(0.7, hard)
        scalar = mixture.mix_scalar(z_y, z_s)
        vector = mixture.mix(np.stack([1 - z_y, z_y], axis=1), np.stack([1 - z_s, z_s], axis=1))
        assert vector[:, 1] == pytest.approx(scalar)
        for guesses, other in zip(mixture.read(vector, 2), mixture.read_scalar(scalar), strict=True):
            assert np.array_equal(guesses, other)


@pytest.mark.parametrize(("values_y", "values_s"), [(2, 2), (3, 2), (5, 3), (5, 5)])
@pytest.mark.parametrize("beta_y", [0.51, 0.8, 0.99])
def test_hard_vectors_are_probabilities_keep_the_argmax_and_are_read_without_an_error(values_y, values_s, beta_y):
    z_y, z_s = random_probabilities(400, values_y, 2), random_probabilities(400, values_s, 3)
    mixture = Mixture(beta_y)
    mixed = mixture.mix(z_y, z_s)
    assert mixed.shape == z_y.shape
    assert mixed.min() >= 0
    assert mixed.sum(axis=1) == pytest.approx(np.ones(400))
    assert np.array_equal(mixed.argmax(axis=1), z_y.argmax(axis=1))
    y, s = mixture.read(mixed, values_s)
    assert np.array_equal(y, z_y.argmax(axis=1))
    assert np.array_equal(s, z_s.argmax(axis=1))


def test_real_digits_become_five_probabilities_that_reveal_even_or_odd():
    x, digits = load_digits(return_X_y=True)
    x, y, s = x / 16, digits // 2, digits % 2
    train, test = np.arange(1200), np.arange(1200, len(x))
    z_y, z_s = (
        LogisticRegression(C=1.0, max_iter=300).fit(x[train], codes[train]).predict_proba(x[test]) for codes in (y, s)
    )
    target, secret = (Attribute.from_column(name, codes[test]) for name, codes in (("pair", y), ("odd", s)))
    right_y, right_s = (z_y.argmax(axis=1) == y[test]).mean(), (z_s.argmax(axis=1) == s[test]).mean()
    read = {}
    for hard in (True, False):
        mixture = Mixture(0.8, hard)
        outputs = mixture.outputs(z_y, z_s, target, secret)
        assert isinstance(outputs, Outputs)
        assert not outputs.raw
        guessed = mixture.read(outputs.scores, 2)
        read[hard] = ((outputs.predicted == y[test]).mean(), (guessed[1] == s[test]).mean())
    assert read[True] == pytest.approx((right_y, right_s))  # exactly as accurate as the two classifiers
    assert right_s > 0.8
    assert read[False][0] > right_y - 0.05
    assert read[False][1] < read[True][1]  # at .8 many z_y are too uncertain for a soft mixture


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Mixture(0.5), r"beta_y must lie in \(0.5, 1\)"),
        (lambda: Mixture().mix(np.eye(2), np.eye(3)[:2]), "s has 3 values and y only 2"),
        (lambda: Mixture().mix(np.eye(3), np.eye(2)), "z_y has 3 rows, z_s has 2"),
        (lambda: Mixture().mix([[3.0, -1.0]], [[0.5, 0.5]]), "z_y: row 1 holds 3"),
        (lambda: Mixture().mix([[0.5, 0.5]], [[0.9, 0.5]]), "z_s: the probabilities in row 1 sum to 1.4"),
        (lambda: Mixture().mix([0.5], [0.5]), "z_y must be"),
        (lambda: Mixture().mix_scalar([1.5], [0.5]), "no probability"),
        (lambda: Mixture().read(np.eye(2), 3), "S ≤ Y"),
        (lambda: Mixture().read_scalar([0.3], 0.5), "threshold"),
    ],
)
def test_bad_input_is_refused_in_a_line(call, message):
    with pytest.raises(InputError, match=message):
        call()
