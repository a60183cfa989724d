"""One logistic regression for two attributes: its optimum, its ceiling, what intervals read, and Appendix A.2."""

import itertools

import numpy as np
import pytest
from fedveil_papers.curious.convex import CuriousLogistic, RidgeLoss, neighbourhood
from fedveil_papers.curious.figure2 import figure2
from fedveil_papers.curious.intervals import IntervalAttacker
from sklearn.linear_model import LogisticRegression

from fedveil.core.errors import InputError
from fedveil.data import Split


def drawn(**settings):
    data = figure2(1500, 800, 4000, seed=3, **settings)
    rows = [data.rows(part) for part in Split]
    return data.x.astype(float), data.y.codes, data.attributes["s"].codes, rows


def test_data_has_the_stated_margin_and_independence():
    x, y, s, (train, _, test) = drawn(margin=0.25)
    assert len(train) == 1500
    assert len(test) == 4000
    assert np.array_equal(x[:, 0] > 0, y == 1)
    assert np.array_equal(x[:, 1] > 0, s == 1)
    assert 0.25 <= np.abs(x).min() < 0.27
    assert abs(np.corrcoef(y, s)[0, 1]) < 0.04
    assert (drawn(agreement=0.75)[1] == drawn(agreement=0.75)[2]).mean() == pytest.approx(0.75, abs=0.02)


def test_the_optimum_without_curiosity_is_scikit_learns():
    x, y, s, (train, *_) = drawn()
    ours = CuriousLogistic.fit(x[train], y[train], s[train], beta_s=0.0, penalty=1 / (2.0 * len(train)))
    # Its intercept is penalised only if it is a column of the inputs.
    columns = np.column_stack([x[train], np.ones(len(train))])
    other = LogisticRegression(C=2.0, fit_intercept=False, tol=1e-10).fit(columns, y[train])
    assert ours.theta == pytest.approx(other.coef_[0], abs=1e-4)
    assert ours.soft(x) == pytest.approx(other.predict_proba(np.column_stack([x, np.ones(len(x))]))[:, 1], abs=1e-5)


def test_the_loss_of_soft_aims_is_the_mixture_of_both_losses_and_its_gradient_is_right():
    x, y, s, (train, *_) = drawn()
    x, y, s = x[train], y[train], s[train]
    both = RidgeLoss.of(x, 0.7 * y + 0.3 * s, 0.01)
    loss_y, loss_s = RidgeLoss.of(x, y, 0.01), RidgeLoss.of(x, s, 0.01)
    theta = np.array([1.2, -0.4, 0.3])
    assert both.value(theta) == pytest.approx(0.7 * loss_y.value(theta) + 0.3 * loss_s.value(theta))
    slopes = [(both.value(theta + step) - both.value(theta - step)) / 2e-6 for step in 1e-6 * np.eye(3)]
    assert both.gradient(theta) == pytest.approx(slopes, abs=1e-7)
    assert np.linalg.norm(both.gradient(both.minimum())) < 1e-10


@pytest.mark.parametrize("beta_s", [0.0, 0.2, 0.35, 0.5])
def test_one_shared_threshold_reaches_its_ceiling_and_intervals_pass_it(beta_s):
    x, y, s, (train, validation, test) = drawn(margin=0.1)
    classifier = CuriousLogistic.fit(x[train], y[train], s[train], beta_s=beta_s, penalty=1 / len(train))
    outputs = classifier.soft(x)
    bit = outputs[test] >= 0.5
    honesty, shared = (bit == y[test]).mean(), (bit == s[test]).mean()
    ceiling = 1 + (y[test] == s[test]).mean()
    assert honesty + shared <= ceiling + 1e-12  # for any bit and any classifier
    assert honesty + shared == pytest.approx(ceiling, abs=0.01)
    assert honesty + shared == pytest.approx(1.5, abs=0.03)
    attacker_data = [(outputs[rows], s[rows]) for rows in (train, validation)]
    read = (IntervalAttacker.fit(*attacker_data).guesses(outputs[test]) == s[test]).mean()
    if beta_s in (0.2, 0.35):
        assert honesty + read > ceiling + 0.04
    if beta_s == 0.0:
        assert read == pytest.approx(0.5, abs=0.03)


def test_with_a_margin_between_groups_a_linear_classifier_is_fully_honest_and_fully_curious():
    x, y, s, (train, validation, test) = drawn(margin=0.6)
    classifier = CuriousLogistic.fit(x[train], y[train], s[train], beta_s=0.2, penalty=1 / len(train))
    outputs = classifier.soft(x)
    attacker_data = [(outputs[rows], s[rows]) for rows in (train, validation)]
    attacker = IntervalAttacker.fit(*attacker_data)
    assert ((outputs[test] >= 0.5) == y[test]).mean() > 0.998
    assert (attacker.guesses(outputs[test]) == s[test]).mean() > 0.995
    assert len(attacker.borders) == 3
    single = IntervalAttacker.fit(*attacker_data, most=2)
    assert (single.guesses(outputs[test]) == s[test]).mean() == pytest.approx(0.75, abs=0.02)


def test_no_other_intervals_do_better_on_the_auxiliary_records():
    rng = np.random.default_rng(5)
    outputs, codes = np.sort(rng.random(12)), rng.integers(0, 2, 12)
    for most in (1, 2, 3, 4):
        attacker = IntervalAttacker.fit((outputs, codes), (outputs, codes), most=most)
        labellings = ((np.arange(2**12)[:, None] >> np.arange(12)) & 1).astype(int)
        allowed = labellings[(np.diff(labellings, axis=1) != 0).sum(axis=1) <= most - 1]
        best = (allowed == codes).mean(axis=1).max()
        assert (attacker.guesses(outputs) == codes).mean() == pytest.approx(best)


@pytest.mark.parametrize("penalty", [0.1, 0.003])
def test_the_neighbourhood_grows_with_beta_s_within_both_bounds(penalty):
    x, y, s, (train, *_) = drawn()
    measured = [
        neighbourhood(x[train], y[train], s[train], beta_s=beta, penalty=penalty)
        for beta in (0.0, 0.05, 0.2, 0.5, 0.8, 1.0)
    ]
    distances = [near.distance for near in measured]
    assert distances[0] < 1e-9
    assert all(after > before + 0.01 for before, after in itertools.pairwise(distances))
    for near in measured:
        assert near.distance <= near.gradient_bound + 1e-9
        assert near.distance <= near.gap_bound + 1e-6
        assert near.lost >= -1e-12
    assert measured[1].gap_bound < 3 * measured[1].distance  # the bound is not vacuous


def test_the_neighbourhood_vanishes_where_both_optima_are_the_same_and_shrinks_on_the_way_there():
    distances = []
    for agreement in (0.5, 0.8, 1.0):
        x, y, s, (train, *_) = drawn(agreement=agreement)
        distances.append(neighbourhood(x[train], y[train], s[train], beta_s=0.3, penalty=0.1).distance)
    assert distances[0] > distances[1] > distances[2]
    assert distances[2] < 1e-9


def test_gradient_descent_stays_under_the_corrected_integral_and_ends_at_the_measured_distance():
    x, y, s, (train, *_) = drawn()
    train, penalty, beta = train[:400], 0.1, 0.3
    x, y, s = x[train], y[train], s[train]
    loss_y, loss_s = RidgeLoss.of(x, y, penalty), RidgeLoss.of(x, s, penalty)
    both = RidgeLoss.of(x, (1 - beta) * y + beta * s, penalty)
    alone = loss_y.minimum()
    rate, step = 2 * (1 - beta) * penalty + beta * penalty, 0.05
    theta = np.array([-2.0, 3.0, 1.0])
    start = 0.5 * np.sum((theta - alone) ** 2)
    integral = 0.0
    for turn in range(1, 1501):
        gap = loss_s.value(alone) - loss_s.value(theta)
        integral = np.exp(-rate * step) * (integral + step * gap)
        theta = theta - step * both.gradient(theta)
        now = 0.5 * np.sum((theta - alone) ** 2)
        assert (
            now <= np.exp(-rate * step * turn) * start + beta * integral + 5e-3
        )  # gradient descent in steps, not the exact flow
    measured = neighbourhood(x, y, s, beta_s=beta, penalty=penalty).distance
    assert np.linalg.norm(theta - alone) == pytest.approx(measured, abs=1e-3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: figure2(margin=1.0), r"margin must lie in \[0, 1\)"),
        (lambda: figure2(test=3), "at least 10 records"),
        (lambda: RidgeLoss.of(np.ones((4, 2)), [0, 1, 1, 2], 0.1), r"aims must lie in \[0, 1\]"),
        (lambda: RidgeLoss.of(np.ones((4, 2)), [0, 1], 0.1), r"aims \(n,\)"),
        (lambda: RidgeLoss.of(np.ones((2, 2)), [0, 1], 0.0), "penalty must be above 0"),
        (lambda: CuriousLogistic.fit([[1.0]], [1], [0], beta_s=1.5, penalty=1.0), "beta_s"),
        (lambda: IntervalAttacker.fit(([0.1, 0.2], [0, 2]), ([0.1], [0])), "codes 0 or 1"),
        (lambda: IntervalAttacker.fit(([0.1, 0.2], [0, 1]), ([0.1], [0, 1])), "one output and one code"),
        (lambda: IntervalAttacker.fit(([0.1], [0]), ([0.1], [0]), most=0), "at least 1 interval"),
    ],
)
def test_bad_input_is_refused_in_a_line(call, message):
    with pytest.raises(InputError, match=message):
        call()
