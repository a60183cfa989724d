"""The attacker on updates reads a device's majority where devices differ, and nothing where they do not."""

import numpy as np
import pytest

from fedveil.attacks import Labelled, panel
from fedveil.attacks.updates import UpdateReader, along, principal_axes
from fedveil.core import plugins
from fedveil.core.errors import InputError
from fedveil.data import IID, Attribute, Dirichlet, load
from fedveil.federation import Federation
from fedveil.federation.recording import feature_view
from fedveil.games import FedAvg
from fedveil.shields.dp.gaussian import DPGaussian
from fedveil.view import View


def few_and_wide(shift, n=120, d=4000, seed=0):
    """A signal in one direction of many; lengths that say nothing vary by a factor of a hundred."""
    rng = np.random.default_rng(seed)
    u = np.arange(n) % 2
    direction = rng.normal(size=d) / np.sqrt(d)
    rows = rng.normal(size=(n, d)) / np.sqrt(d) + shift * (2 * u - 1)[:, None] * direction
    return rows * np.exp(rng.uniform(0, np.log(100), size=(n, 1))), u


def test_principal_axes_are_those_of_a_plain_decomposition():
    rows = np.random.default_rng(0).normal(size=(30, 50)) * np.linspace(3, 0.1, 50)
    axes = principal_axes(rows, False, 5)
    seen = along(axes, rows)
    left, values, _ = np.linalg.svd(rows - rows.mean(axis=0), full_matrices=False)
    expected = left[:, :5] * values[:5] / (values[0] / np.sqrt(30))
    np.testing.assert_allclose(np.abs(seen), np.abs(expected), atol=1e-9)
    constant = np.ones((4, 6))
    assert np.array_equal(along(principal_axes(constant, True, 3), constant), np.zeros((4, 1)))


def test_it_reads_directions_through_lengths_that_differ():
    rows, u = few_and_wide(0.6)
    attack = UpdateReader(seed=0)
    attack.fit(Labelled(rows[:60], u[:60]), Labelled(rows[60:90], u[60:90]), 2)
    assert attack.axes_[0]  # it chose the form with norm 1
    assert (attack.scores(rows[90:]).argmax(axis=1) == u[90:]).mean() > 0.85


@pytest.mark.parametrize("seed", range(3))
def test_it_finds_nothing_in_noise(seed):
    rows, u = few_and_wide(0.0, n=400, d=500, seed=seed)
    view = View.of_vectors(rows, {"u": Attribute("u", u, ("a", "b"))}, groups=np.arange(400), seed=seed)
    attack = UpdateReader(seed=0)
    codes = [pool.attributes["u"].codes for pool in (view.auxiliary, view.validation, view.victims)]
    attack.fit(Labelled(view.auxiliary.vectors, codes[0]), Labelled(view.validation.vectors, codes[1]), 2)
    right = (attack.scores(view.victims.vectors).argmax(axis=1) == codes[2]).mean()
    assert abs(right - 0.5) < 4 * 0.5 / np.sqrt(len(codes[2]))


def test_it_needs_to_know_who_sent_what():
    view = View.of_data(load("synthetic", target="y", sensitive="u", n=300))
    with pytest.raises(InputError, match="attacker 'updates' needs who sent what"):
        panel(["updates"]).judge(view, "u")
    assert plugins.load("fedveil.attacks", "updates") is UpdateReader


@pytest.fixture
def adult(published):
    published("adult")
    return load("adult", target="income", sensitive="sex")


def judged(data, partition, seed, question="majority", how="direction", **options):
    federation = Federation(data, devices=partition, fraction=0.5, seed=seed, **options)
    run = federation.play(FedAvg(), rounds=4, record=[1, 2, 3, 4])
    view = feature_view(run, how, question=question, by_device=True)
    return panel(["updates"], draws=200).judge(view, "sex"), run


def test_on_adult_by_sex_it_reads_the_majority_of_a_hundred_devices(adult):
    """Three seeds of 28 victims each: well above chance together, with intervals as wide as 28 devices make them."""
    judgements = [judged(adult, Dirichlet(100, 0.1, "sex"), seed) for seed in range(3)]
    figures = [judgement.worst.balanced_accuracy for judgement, _ in judgements]
    assert np.mean([figure.estimate for figure in figures]) > 0.75
    assert all(judgement.groups == judgement.n[2] < 40 for judgement, _ in judgements)  # intervals count devices
    assert all(figure.high - figure.low > 0.15 for figure in figures)
    flat = panel(["updates"], draws=200).judge(judgements[1][1].view("updates"), "sex")
    assert flat.worst.balanced_accuracy.low > 0.55
    assert flat.groups < flat.n[2]  # several rounds of a device are one device


def test_on_adult_dealt_at_random_it_reads_nothing(adult):
    """All devices have the same majority there; what a device has more of than usual cannot be read from updates."""
    judgements = [judged(adult, IID(100), seed, "more than usual")[0] for seed in range(3)]
    figures = [judgement.worst.balanced_accuracy for judgement in judgements]
    assert abs(np.mean([figure.estimate for figure in figures]) - 0.5) < 0.12
    assert all(figure.low < 0.5 for figure in figures)
    federation = Federation(adult, devices=100, fraction=0.5)
    run = federation.play(FedAvg(hidden=(4,)), rounds=1, record=[1])
    with pytest.raises(InputError, match="one value"):
        panel(["updates"]).judge(run.view("updates"), "sex")


def test_noise_on_clipped_updates_hides_the_majority(adult):
    shield = DPGaussian.for_advantage(0.1, releases=4, clip=0.1)
    judgement, run = judged(adult, Dirichlet(100, 0.1, "sex"), 1, shield=shield)
    assert shield.certificates_over(4, 2, (0.5, 0.5))[1].bound <= 0.55 + 1e-9
    assert judgement.worst.balanced_accuracy.low < 0.55
    assert run.history[0].damage["l2"] > 1
