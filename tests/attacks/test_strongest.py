"""The largest of several figures, with an interval that holds although the largest was taken."""

from __future__ import annotations

import numpy as np

from fedveil.attacks import panel
from fedveil.attacks.strongest import largest, quantile_of_largest
from fedveil.core.figures import Estimate
from fedveil.data import Attribute
from fedveil.view import Pool, View


def sample(points, agreement, rng, people=400, draws=400):
    """Draws of attackers' shares of right guesses; with full agreement, all are right about the same people."""
    common = rng.random(people)
    right = [(np.where(rng.random(people) < agreement, common, rng.random(people)) < point) for point in points]
    weights = np.vstack([np.ones(people), rng.multinomial(people, np.full(people, 1 / people), size=draws)])
    values = [(weights @ each) / people for each in right]
    ends = [np.quantile(value[1:], [0.025, 0.975]) for value in values]
    return [Estimate(float(v[0]), float(low), float(high)) for v, (low, high) in zip(values, ends, strict=True)], values


def test_the_largest_of_many_that_only_guess_includes_guessing():
    """Uncorrected, the largest of ten independent guessers excludes guessing in about a fifth of all samples."""
    rng = np.random.default_rng(0)
    corrected = uncorrected = 0
    for _ in range(100):
        figures, draws = sample([0.5] * 10, 0.0, rng)
        first, estimate = largest(figures, draws, 0.95)
        assert estimate.estimate == max(figure.estimate for figure in figures) == figures[first].estimate
        corrected += estimate.low > 0.5
        uncorrected += figures[first].low > 0.5
    assert uncorrected > 12
    assert corrected <= 8


def test_attackers_that_agree_cost_hardly_any_width():
    rng = np.random.default_rng(0)
    single = 1.96
    assert quantile_of_largest(sample([0.6] * 10, 1.0, rng)[1], 0.95) < single + 0.35
    assert quantile_of_largest(sample([0.6] * 10, 0.0, rng)[1], 0.95) > single + 0.5


def test_the_upper_end_is_the_largest_of_all():
    """An attacker with a lower estimate may have a wider interval: it may be the truly strongest."""
    figures = [Estimate(0.6, 0.58, 0.62), Estimate(0.59, 0.5, 0.68)]
    rng = np.random.default_rng(0)
    draws = [np.concatenate([[f.estimate], rng.normal(f.estimate, (f.high - f.low) / 4, 500)]) for f in figures]
    first, estimate = largest(figures, draws, 0.95)
    assert (first, estimate.high) == (0, 0.68)
    assert 0.57 < estimate.low < 0.58


def test_attackers_that_never_vary_are_kept():
    certain = [Estimate(1.0, 0.97, 1.0), Estimate(1.0, 0.97, 1.0)]
    assert largest(certain, [np.ones(101)] * 2, 0.95)[1] == Estimate(1.0, 0.97, 1.0)
    assert largest(certain[:1], [np.ones(101)], 0.95) == (0, certain[0])


def test_the_headline_is_the_strongest_on_victims_whatever_validation_says():
    """Validation people mislead: they show u in a column in which victims do not, so the wrong attacker is chosen."""
    rng = np.random.default_rng(0)
    pools = []
    for n, linear, product in ((2000, 0.4, 1.0), (400, 1.2, 0.0), (1500, 0.0, 1.0)):
        u = np.arange(n) % 2
        r = rng.normal(size=(n, 3))
        r[:, 0] += linear * (2 * u - 1)
        sign = np.sign(r[:, 1]) * (2 * u - 1)
        r[:, 2] = np.where(rng.random(n) < product, np.abs(r[:, 2]) * sign, r[:, 2])
        pools.append(Pool(r, {"u": Attribute("u", u, ("a", "b"))}))
    judgement = panel(["logistic", "boosting"], draws=200).judge(View(*pools))
    assert judgement.chosen is not None
    assert judgement.worst.balanced_accuracy.estimate == max(a.balanced_accuracy.estimate for a in judgement.attackers)
    assert judgement.worst.name == "boosting"
    assert judgement.as_dict()["chosen"]["name"] == judgement.chosen.name


def test_figures_do_not_depend_on_how_many_attackers_run_at_a_time():
    rng = np.random.default_rng(0)
    u = rng.integers(2, size=900)
    seen = View.of_vectors(rng.normal(size=(900, 4)) + 0.3 * u[:, None], {"u": Attribute("u", u, ("a", "b"))})
    first, second = (panel("quick", draws=200, workers=count).judge(seen) for count in (1, 2))
    assert first == second
