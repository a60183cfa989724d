import numpy as np
from scipy.special import log_softmax
from sklearn.metrics import balanced_accuracy_score

from fedveil.attacks.trial import calibrate


def sample(n, prior, rng, separation=2.0):
    codes = rng.choice(len(prior), n, p=prior)
    vectors = rng.normal(size=(n, len(prior))) + separation * np.eye(len(prior))[codes]
    true = separation * vectors + np.log(prior)  # the log-posterior up to a constant
    return codes, true


def test_an_overconfident_attacker_gets_the_true_posterior_back():
    rng = np.random.default_rng(0)
    codes, true = sample(20_000, np.array([0.5, 0.3, 0.2]), rng)
    _, natural = calibrate(7.0 * true - 3.0, codes, np.array([0.5, 0.3, 0.2]))
    posterior = natural.log_posterior(7.0 * true - 3.0)
    assert np.abs(np.exp(posterior) - np.exp(log_softmax(true, axis=1))).mean() < 0.01


def test_the_balanced_decision_beats_the_plain_one_on_an_uneven_attribute():
    rng = np.random.default_rng(1)
    prior = np.array([0.95, 0.05])
    codes, scores = sample(4000, prior, rng, separation=1.0)
    balanced, natural = calibrate(scores, codes, prior)
    fresh, scores = sample(20_000, prior, rng, separation=1.0)
    weighted = balanced_accuracy_score(fresh, balanced.log_posterior(scores).argmax(1))
    plain = balanced_accuracy_score(fresh, natural.log_posterior(scores).argmax(1))
    assert weighted > 0.74
    assert plain < 0.6
    assert (natural.log_posterior(scores).argmax(1) == fresh).mean() >= 0.95


def test_scores_that_say_nothing_become_the_prior():
    rng = np.random.default_rng(2)
    prior = np.array([0.8, 0.2])
    codes = rng.choice(2, 5000, p=prior)
    scores = rng.normal(size=(5000, 2))
    _, natural = calibrate(scores, codes, prior)
    assert np.abs(np.exp(natural.log_posterior(rng.normal(size=(1000, 2)))) - prior).max() < 0.1
