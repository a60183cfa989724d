import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm
from sklearn.metrics import balanced_accuracy_score, roc_auc_score

from fedveil.core.measures import (
    Predictions,
    chance_error,
    counting_units,
    detectable_advantage,
    figures_of,
    interval,
    resampled,
)


def predictions(codes, log_posterior, prior=None):
    classes = log_posterior.shape[1]
    guesses = log_posterior.argmax(1)
    prior = np.bincount(codes, minlength=classes) / len(codes) if prior is None else prior
    return Predictions(codes, guesses, guesses, log_posterior, prior)


@settings(max_examples=30, deadline=None)
@given(classes=st.integers(2, 5), n=st.integers(30, 200), seed=st.integers(0, 2**32 - 1), coarse=st.booleans())
def test_the_sample_s_figures_are_those_of_a_naive_reference(classes, n, seed, coarse):
    rng = np.random.default_rng(seed)
    codes = np.concatenate([np.arange(classes), rng.integers(0, classes, n)])
    posterior = rng.dirichlet(np.ones(classes), len(codes))
    if coarse:  # ties in the scores must count half
        posterior = np.round(posterior * 4 + 1)
        posterior /= posterior.sum(1, keepdims=True)
    guesses = predictions(codes, np.log(posterior))
    figures = resampled(guesses, None, 100, rng)
    assert figures["accuracy"][0] == pytest.approx((guesses.plain == codes).mean())
    assert figures["balanced_accuracy"][0] == pytest.approx(balanced_accuracy_score(codes, guesses.balanced))
    scored = [1] if classes == 2 else range(classes)
    areas = [roc_auc_score(codes == k, np.log(posterior[:, k])) for k in scored]
    assert figures["auc"][0] == pytest.approx(np.mean(areas))
    shares = np.bincount(codes) / len(codes)
    bits = -(shares * np.log2(shares)).sum() + np.log2(posterior[np.arange(len(codes)), codes]).mean()
    assert figures["raw_information"][0] == pytest.approx(bits)
    assert figures["prior"][0] == pytest.approx(shares.max())
    expected = (classes * figures["balanced_accuracy"] - 1) / (classes - 1)
    np.testing.assert_allclose(figures["advantage"], expected)
    assert figures["mutual_information_bits"].min() >= 0


def test_intervals_cover_the_true_accuracy_as_often_as_they_say():
    rng = np.random.default_rng(1)
    hits = 0
    for _ in range(200):
        codes = rng.integers(0, 2, 400)
        right = rng.random(400) < 0.7
        guess = np.where(right, codes, 1 - codes)
        log_posterior = np.log(np.where(np.eye(2)[guess] > 0, 0.7, 0.3))
        figure = interval(resampled(predictions(codes, log_posterior), None, 300, rng)["balanced_accuracy"], 0.95)
        hits += figure.low <= 0.7 <= figure.high
    assert 180 <= hits <= 200


def test_records_of_one_person_are_not_independent_evidence():
    rng = np.random.default_rng(2)
    person = np.repeat(np.arange(60), 20)
    codes = (np.arange(60) % 2)[person]
    right = (rng.random(60) < 0.7)[person]
    guess = np.where(right, codes, 1 - codes)
    guesses = predictions(codes, np.log(np.where(np.eye(2)[guess] > 0, 0.7, 0.3)))
    alone = interval(resampled(guesses, None, 500, np.random.default_rng(0))["accuracy"], 0.95)
    grouped = interval(resampled(guesses, person, 500, np.random.default_rng(0))["accuracy"], 0.95)
    assert grouped.high - grouped.low > 3 * (alone.high - alone.low)
    assert detectable_advantage(codes, 2, person) > 3 * detectable_advantage(codes, 2, None)


def test_the_detectable_advantage_is_detected_in_four_of_five_repetitions():
    rng = np.random.default_rng(3)
    codes = np.repeat([0, 1], [300, 900])
    advantage = detectable_advantage(codes, 2, None)
    balanced = (advantage + 1) / 2
    error = chance_error(codes, 2, None)
    detected = 0
    for _ in range(2000):
        right = rng.random(len(codes)) < balanced
        seen = (right[codes == 0].mean() + right[codes == 1].mean()) / 2
        detected += (seen - 0.5) / error > norm.ppf(0.95)
    assert 0.77 < detected / 2000 < 0.83


def test_a_draw_that_misses_a_rare_class_does_not_spoil_the_interval():
    rng = np.random.default_rng(4)
    codes = np.array([0] * 50 + [1] * 50 + [2])
    figures = resampled(predictions(codes, np.log(rng.dirichlet(np.ones(3), 101))), None, 200, rng)
    assert all(np.isfinite(draws).all() for draws in figures.values())


def test_a_draw_that_misses_one_of_two_classes_is_left_out_quietly():
    rng = np.random.default_rng(5)
    codes = np.array([0] * 6 + [1])
    figures = resampled(predictions(codes, np.log(rng.dirichlet(np.ones(2), 7))), None, 200, rng)
    assert np.isnan(figures["auc"]).any()
    assert np.isfinite(interval(figures["auc"], 0.95).low)


@pytest.mark.parametrize(
    ("sizes", "truth"),
    [
        ((300, 3), (0.6, 0.7)),
        ((200, 200, 2, 1), (0.5, 0.4, 0.6, 0.5)),
        ((20, 20), (0.95, 0.95)),
        ((8, 8), (0.99, 0.99)),
    ],
)
def test_intervals_of_few_victims_or_perfect_readers_cover_the_truth(sizes, truth):
    rng = np.random.default_rng(6)
    codes = np.repeat(np.arange(len(sizes)), sizes)
    classes, hits = len(sizes), 0
    for _ in range(150):
        right = rng.random(len(codes)) < np.array(truth)[codes]
        guess = np.where(right, codes, (codes + 1) % classes)
        guesses = predictions(codes, np.log(np.where(np.eye(classes)[guess] > 0, 0.7, 0.3 / (classes - 1))))
        draws = resampled(guesses, None, 200, rng)
        figures = figures_of(draws, guesses.recalls[0], counting_units(codes, classes, None), 0.95)
        hits += figures["balanced_accuracy"].low <= np.mean(truth) <= figures["balanced_accuracy"].high
        assert figures["auc"].low <= figures["auc"].estimate <= figures["auc"].high
    assert hits >= 138


def test_the_prior_is_that_of_the_attacker_s_commonest_value():
    codes = np.array([0] * 49 + [1] * 51)
    guesses = predictions(codes, np.log(np.full((100, 2), 0.5)), prior=np.array([0.6, 0.4]))
    figures = resampled(guesses, None, 200, np.random.default_rng(0))
    assert figures["prior"][0] == pytest.approx(0.49)
    assert interval(figures["prior"], 0.95).low < 0.45
