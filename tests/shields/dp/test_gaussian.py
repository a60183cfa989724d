"""DP-Gaussian: the noise is as stated, ε agrees with the accountants, and no attacker beats the certificates."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import norm

from fedveil.certificates import dp_sgd_epsilon, gaussian_epsilon
from fedveil.core import plugins
from fedveil.core.errors import InputError
from fedveil.core.randomness import torch_generator
from fedveil.data import load
from fedveil.federation import Federation
from fedveil.federation.spending import rounds_spoken, spent_in
from fedveil.games import FedAvg, Raw
from fedveil.shields import CertifiedChannel, Chain, Context, Kind, Message, ShieldError
from fedveil.shields.compression import Compression
from fedveil.shields.dp.gaussian import DPGaussian


def context(seed=0):
    return Context(0, 1, torch_generator(seed, "shield"))


def sent(shield, rows, kind=Kind.UPDATE, seed=0):
    return shield.apply(Message(kind, rows), context(seed))[0].values


def test_rows_are_clipped_to_the_norm_and_noise_has_the_deviation():
    rows = torch.linspace(0.1, 3.0, 40)[:, None] * torch.ones(40, 5000) / math.sqrt(5000)
    quiet = sent(DPGaussian(1e-9, clip=1.0), rows)
    torch.testing.assert_close(quiet.norm(dim=1), rows.norm(dim=1).clamp_max(1.0), rtol=1e-5, atol=1e-6)
    noise = (sent(DPGaussian(0.7, clip=1.0), rows) - quiet).double()
    assert noise.std() == pytest.approx(0.7, rel=0.01)
    assert abs(noise.mean()) < 5 * 0.7 / math.sqrt(noise.numel())
    unclipped = sent(DPGaussian(1e-9, clip=None), rows)
    torch.testing.assert_close(unclipped, rows)


def test_realised_damage_is_the_noise_where_nothing_is_clipped():
    shield = DPGaussian(0.5, clip=10.0)
    _, damage = shield.apply(Message(Kind.UPDATE, torch.zeros(1, 10_000)), context())
    assert damage.l2 == pytest.approx(0.5 * 100, rel=0.03)


@pytest.mark.parametrize(("sigma", "clip", "rounds"), [(2.0, 1.0, 1), (9.0, 1.5, 20), (40.0, 0.5, 300)])
def test_epsilon_spent_agrees_with_accountants(sigma, clip, rounds):
    """Sensitivity 2B: any two clipped updates; every round counted, none sampled."""
    shield = DPGaussian(sigma, clip=clip, delta=1e-5)
    certificate = shield.spent(rounds)
    assert certificate.quantity == "epsilon"
    assert certificate.assumptions["delta"] == 1e-5
    assert certificate.assumptions["releases"] == rounds
    multiplier = sigma / (2 * clip)
    assert certificate.bound == pytest.approx(gaussian_epsilon(multiplier, 1e-5, rounds))
    by_pld = dp_sgd_epsilon(multiplier, 1.0, rounds, 1e-5, accountant="pld")
    assert certificate.bound == pytest.approx(by_pld, rel=2e-3, abs=2e-3)
    assert certificate.bound <= dp_sgd_epsilon(multiplier, 1.0, rounds, 1e-5, accountant="rdp")  # looser, from Opacus
    assert shield.spent(0).bound == 0.0
    assert "CERTIFIED epsilon ≤" in str(certificate)


def test_without_a_clip_epsilon_is_infinite_and_reported_as_such():
    shield = DPGaussian(100.0, clip=None)
    certificate = shield.spent(1)
    assert math.isinf(certificate.bound)
    assert "epsilon ≤ ∞" in str(certificate)
    assert "guarantees nothing" in str(certificate)
    assert not shield.certifies
    for place in ("update", "input", "last-layer"):
        assert DPGaussian(100.0, clip=None, place=place).certificates(2, (0.5, 0.5)) == ()
        assert DPGaussian(100.0, clip=None, place=place).certificates_over(3, 2, (0.5, 0.5)) == ()


@pytest.mark.parametrize(("target", "rounds"), [(0.5, 1), (8.0, 20), (1.0, 500)])
def test_calibrated_noise_reaches_the_target_and_not_much_more(target, rounds):
    shield = DPGaussian(epsilon=target, releases=rounds, clip=0.3)
    reached = shield.spent().bound
    assert reached <= target
    assert DPGaussian(shield.sigma * 0.997, clip=0.3).spent(rounds).bound > target


def test_calibration_to_an_advantage():
    shield = DPGaussian.for_advantage(0.1, releases=20, clip=2.0)
    advantage = shield.certificates_over(20, 2, (0.5, 0.5))[0]
    assert 0.0999 < advantage.bound <= 0.1
    with pytest.raises(InputError, match="strictly between 0 and 1"):
        DPGaussian.for_advantage(0.0)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "give either sigma"),
        ({"sigma": 1.0, "epsilon": 1.0}, "give either sigma"),
        ({"sigma": 0.0}, "sigma must be above 0"),
        ({"sigma": float("nan")}, "sigma must be above 0"),
        ({"sigma": 1.0, "clip": 0.0}, "clip must be above 0"),
        ({"sigma": 1.0, "clip": float("inf")}, "clip must be above 0"),
        ({"sigma": 1.0, "place": "elsewhere"}, "place must be one of update, input, last-layer, representation"),
        ({"epsilon": 1.0, "clip": None}, "cannot be reached without clip"),
        ({"epsilon": 0.0}, "cannot be reached"),
        ({"epsilon": 1e-9, "releases": 100_000}, "cannot be reached"),
        ({"epsilon": 1e9}, "cannot be reached"),
        ({"epsilon": 1.0, "delta": 0.0}, "delta must lie"),
        ({"sigma": 1.0, "releases": -1}, "whole number"),
    ],
)
def test_bad_settings_are_refused_in_one_line(settings, words):
    with pytest.raises(InputError, match=words) as fault:
        DPGaussian(**settings)
    assert "\n" not in str(fault.value)


def test_it_fails_closed():
    for bad in (float("nan"), float("inf")):
        for clip in (1.0, None):
            with pytest.raises(ShieldError, match="nothing is sent"):
                sent(DPGaussian(1.0, clip=clip), torch.tensor([[1.0, bad]]))
    huge = sent(DPGaussian(1e-6), torch.full((1, 4), 1e30))
    torch.testing.assert_close(huge, torch.full((1, 4), 0.5))
    assert torch.equal(sent(DPGaussian(1e-30), torch.zeros(2, 3)).abs() < 1e-20, torch.ones(2, 3, dtype=torch.bool))


@pytest.mark.parametrize(
    ("place", "kind"),
    [
        ("update", Kind.UPDATE),
        ("input", Kind.INPUT),
        ("last-layer", Kind.REPRESENTATION),
        ("representation", Kind.REPRESENTATION),
    ],
)
def test_it_acts_on_the_chosen_kind_of_message_and_no_other(place, kind):
    shield = DPGaussian(1.0, place=place)
    for other in Kind:
        moved = not torch.equal(sent(shield, torch.zeros(3, 4), other), torch.zeros(3, 4))
        assert moved == (other is kind)


def test_images_keep_their_shape_and_are_clipped_as_a_whole():
    images = torch.ones(5, 3, 8, 8)
    moved = sent(DPGaussian(1e-9, place="input"), images, Kind.INPUT)
    assert moved.shape == images.shape
    torch.testing.assert_close(moved.flatten(1).norm(dim=1), torch.ones(5))


def test_certificates_on_people_are_the_gaussian_channel_s():
    mine = DPGaussian(2.0, clip=1.5, place="representation").certificates(3, (0.5, 0.3, 0.2))
    theirs = CertifiedChannel(2.0, 1.5).certificates(3, (0.5, 0.3, 0.2))
    assert [(certificate.quantity, certificate.bound) for certificate in mine] == [
        (certificate.quantity, certificate.bound) for certificate in theirs
    ]
    covered = DPGaussian(2.0, place="input").certificates(2, (0.5, 0.5))[0].assumptions["covered messages"]
    assert "computed from it alone" in covered
    with pytest.raises(InputError, match="3 priors for 2 values"):
        DPGaussian(2.0, place="input").certificates(2, (0.5, 0.3, 0.2))


def test_on_updates_nothing_is_claimed_about_representations():
    """A study shows `certificates` beside attacks on representations, which noise on updates does not bound."""
    assert DPGaussian(2.0).certificates(2, (0.5, 0.5)) == ()


@pytest.mark.parametrize("rounds", [1, 4])
@pytest.mark.parametrize("prior", [0.5, 0.7])
def test_the_exact_optimal_attacker_meets_the_bound_and_never_beats_it(rounds, prior):
    """Opposite updates by u in every round: the likelihood ratio is the projection on their difference, summed."""
    n, dimensions = 60_000, 3
    u = (np.random.default_rng(0).random(n) >= prior).astype(int)
    direction = torch.tensor([1.0, 2.0, -2.0], dtype=torch.float64) / 3
    rows = torch.from_numpy(2.0 * u - 1)[:, None] * 5 * direction
    shield = DPGaussian(1.7, clip=1.0)
    seen = sum(sent(shield, rows, seed=number) for number in range(rounds))
    assert seen.shape == (n, dimensions)
    log_ratio = (2 / 1.7**2) * (seen @ direction).numpy()
    guess = log_ratio > math.log(prior / (1 - prior))
    accuracy = float((guess == u).mean())
    balanced = float(np.mean([((log_ratio > 0) == u)[u == k].mean() for k in (0, 1)]))
    advantage, even, plain = shield.certificates_over(rounds, 2, (prior, 1 - prior))
    slack = 4 / math.sqrt(n)
    assert accuracy <= plain.bound + slack
    assert balanced == pytest.approx(even.bound, abs=3 * slack)  # attained: the bound is tight
    assert even.bound == pytest.approx(norm.cdf(math.sqrt(rounds) / 1.7))
    assert advantage.bound == pytest.approx(2 * even.bound - 1)


@pytest.fixture(scope="module")
def data():
    return load("synthetic", target="y", sensitive="u", n=600, bits=0.5)


def test_in_a_federation_the_device_that_spoke_most_is_counted(data):
    federation = Federation(data, devices=10, fraction=0.3, shield=DPGaussian(0.5, clip=0.1))
    run = federation.play(FedAvg(hidden=(4,)), rounds=6)
    spoken = rounds_spoken(run)
    assert spoken.sum() == sum(record.devices for record in run.history) == 18
    (certificate,) = spent_in(run)
    assert certificate == federation.shield.spent(int(spoken.max()))
    assert run.history[0].damage["l2"] > 0
    chained = Federation(data, devices=10, shield=Chain([DPGaussian(0.5, clip=0.1), Compression(0.2)]))
    played = chained.play(FedAvg(hidden=(4,)), rounds=2, record=[2])
    assert spent_in(played) == (DPGaussian(0.5, clip=0.1).spent(2),)
    updates = played.recorded[0][2]
    assert ((updates != 0).sum(dim=1) == Compression(0.2).kept(updates.shape[1])).all()
    assert spent_in(Federation(data, devices=10).play(FedAvg(hidden=(4,)), rounds=1)) == ()


def test_inputs_are_noised_once_per_person(data):
    run = Federation(data, devices=5, shield=DPGaussian(3.0, clip=1.0, place="input")).play(Raw())
    first, again = run.view("representations"), run.view("representations")
    assert np.array_equal(first.victims.vectors, again.victims.vectors)
    assert first.victims.vectors.std() == pytest.approx(3.0, rel=0.1)


def test_it_is_registered_and_prints_its_settings():
    shield = plugins.load("fedveil.shields", "dp-gaussian")(sigma=2.0, place="last-layer")
    assert isinstance(shield, DPGaussian)
    assert "sigma=2.0" in repr(shield)
    assert "frozenset" not in repr(shield)
