"""DP-SGD: clipped record by record as Opacus does it, with the stated noise and ε; and when it refuses."""

import math

import pytest
import torch
from fedveil_papers.recup.laboratory import network
from torch import nn

from fedveil.certificates import dp_sgd_epsilon
from fedveil.core.errors import InputError
from fedveil.core.randomness import torch_generator
from fedveil.data import load
from fedveil.federation import Federation
from fedveil.federation.spending import spent_in
from fedveil.games import FedAvg
from fedveil.games.losses import cross_entropy
from fedveil.games.optimisers import SGD, Adam
from fedveil.shields import (
    DPSGD,
    Chain,
    Context,
    DPGaussian,
    Identity,
    Kind,
    Message,
    Samples,
    ShieldError,
    Soteria,
    Sparsify,
)
from fedveil.updates.gradients import network_segments, per_sample_gradients

SILENT = 1e-12
"""A noise multiplier whose noise cannot be seen."""


def device(model, n, step=1.0, seed=0, shape=(3, 16, 16)):
    x = torch.rand(n, *shape, generator=torch_generator(seed, "x"))
    y = torch.randint(2, (n,), generator=torch_generator(seed, "y"))
    context = Context(
        0,
        1,
        torch_generator(seed, "noise"),
        segments=network_segments(model),
        samples=Samples(model, cross_entropy, x, y, step=step),
    )
    rows = per_sample_gradients(model.eval(), cross_entropy, x, y).detach()
    return rows, context


def celeba():
    return network("celeba", (3, 16, 16), torch_generator(1))


def sent_by(shield, row, context):
    message, damage = shield.apply(Message(Kind.UPDATE, row[None]), context)
    return message.values[0], damage


@pytest.mark.parametrize("step", [1.0, -0.05])
@pytest.mark.parametrize("n", [1, 5])
def test_the_mean_of_clipped_gradients_is_opacus_mean(n, step):
    opacus = pytest.importorskip("opacus")
    model = celeba()
    rows, context = device(model, n, step)
    clip = float(rows.norm(dim=1).median()) * 0.99
    reference = opacus.GradSampleModule(celeba().train(), loss_reduction="sum")
    inputs = context.samples.x.clone().requires_grad_()  # Opacus' hooks warn otherwise
    cross_entropy(reference(inputs), context.samples.y).sum().backward()
    gradients = torch.cat([p.grad_sample.flatten(1) for p in reference._module.parameters()], dim=1)
    norms = gradients.norm(dim=1)
    expected = (gradients * (clip / norms).clamp_max(1)[:, None]).mean(dim=0) * step
    assert (norms > clip).any()
    sent, _ = sent_by(DPSGD(SILENT, clip), step * rows.mean(dim=0), context)
    torch.testing.assert_close(sent, expected, rtol=1e-3, atol=1e-7)
    assert float(sent.norm()) <= abs(step) * clip * (1 + 1e-5)


@pytest.mark.parametrize("n", [1, 4])
@pytest.mark.parametrize("step", [1.0, -0.1])
def test_the_noise_has_the_stated_deviation(n, step):
    model = celeba()
    rows, context = device(model, n, step)
    clip, sigma = 0.5, 2.0
    still, _ = sent_by(DPSGD(SILENT, clip), step * rows.mean(dim=0), context)
    sent, _ = sent_by(DPSGD(sigma, clip), step * rows.mean(dim=0), context)
    noise = (sent - still).double()
    expected = abs(step) * sigma * clip / n
    assert float(noise.std()) == pytest.approx(expected, rel=4 / math.sqrt(2 * len(noise)))
    assert abs(float(noise.mean())) < 4 * expected / math.sqrt(len(noise))


def test_with_one_record_it_is_dp_gaussian_on_gradients():
    rows, context = device(celeba(), 1)
    ours, _ = sent_by(DPSGD(3.0, 0.2), rows[0], context)
    theirs, _ = sent_by(DPGaussian(3.0 * 0.2, 0.2), rows[0], device(celeba(), 1)[1])
    torch.testing.assert_close(ours, theirs)
    assert DPSGD(3.0, 0.2).spent(7).bound == pytest.approx(DPGaussian(0.6, 0.2).spent(7).bound)


@pytest.mark.parametrize(("sigma", "releases"), [(4.0, 1), (8.0, 20)])
def test_epsilon_is_what_accountants_compute(sigma, releases):
    pytest.importorskip("dp_accounting")
    ours = DPSGD(sigma, clip=0.3).spent(releases).bound
    removed = dp_sgd_epsilon(sigma / 2, 1.0, releases, 1e-5)  # replacing one moves the sum twice as far
    replaced = dp_sgd_epsilon(sigma, 1.0, releases, 1e-5, neighbours="replace")
    assert ours == pytest.approx(removed, rel=1e-3)
    assert ours == pytest.approx(replaced, rel=1e-3)


def test_noise_for_a_target():
    for clip in (0.1, 3.0):
        shield = DPSGD(clip=clip, epsilon=2.0, releases=10)
        assert shield.spent().bound == pytest.approx(2.0, rel=2e-3)
        assert shield.spent().bound <= 2.0
    shield = DPSGD.for_advantage(0.1, releases=5, clip=0.2)
    assert shield.certificates_over(5, 2, [0.5, 0.5])[0].bound == pytest.approx(0.1)
    assert "for n of them" in shield.spent().does_not_cover[0]
    assert "one record" in shield.spent().assumptions["covered messages"]
    assert shield.spent(0).bound == 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "give either sigma"),
        ({"sigma": 1.0, "epsilon": 1.0}, "give either sigma"),
        ({"sigma": -1.0}, "sigma must be above 0"),
        ({"sigma": 1.0, "clip": 0.0}, "clip must be above 0"),
        ({"sigma": 1.0, "clip": None}, "clip must be above 0"),
        ({"epsilon": 1.0, "delta": 1.0}, "delta must lie"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        DPSGD(**settings)


def test_where_records_have_no_gradients_of_their_own_nothing_is_sent():
    rows, context = device(celeba(), 3)
    update = rows.mean(dim=0)
    several = Context(0, 1, torch_generator(0), segments=context.segments, samples=device(celeba(), 3, None)[1].samples)
    for wrong, message in [
        (Context(0, 1, torch_generator(0), segments=context.segments), "needs the records behind an update"),
        (several, "no record's share of this update can be determined"),
    ]:
        with pytest.raises(ShieldError, match=message):
            sent_by(DPSGD(1.0), update, wrong)
    with pytest.raises(ShieldError, match="do not add up"):
        sent_by(Chain([Sparsify(0.9), DPSGD(1.0)]), update, context)
    with pytest.raises(ShieldError, match="needs the records"):
        sent_by(Chain([DPSGD(1.0), DPSGD(1.0)]), update, context)


def test_batch_norm_across_records_is_refused():
    model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
    _, context = device(model, 5, shape=(6,))
    model.train()
    cross_entropy(model(context.samples.x), context.samples.y).mean().backward()
    update = torch.cat([p.grad.flatten() for p in model.parameters()])
    for shield in (DPSGD(1.0), Soteria(0.5)):
        with pytest.raises(ShieldError, match=r"batch norm across records.*nothing is sent$"):
            sent_by(
                shield,
                update,
                Context(
                    0,
                    1,
                    torch_generator(0),
                    segments=context.segments,
                    samples=Samples(model.eval(), cross_entropy, context.samples.x, context.samples.y),
                ),
            )


@pytest.fixture(scope="module")
def data():
    return load("synthetic", target="y", sensitive="u", n=400, bits=0.3, overlap=0.5)


def play(data, shield, game=None, engine="stacked"):
    game = game or FedAvg(hidden=(8,), optimiser=SGD(0.1), batch_size=1000)
    return Federation(data, devices=6, shield=shield, engine=engine, seed=3).play(game, rounds=2)


@pytest.mark.parametrize("engine", ["stacked", "plain"])
@pytest.mark.parametrize("shield", [DPSGD(SILENT, clip=1e6), Soteria(p=0.0)])
def test_in_a_federation_of_one_step_only_the_shields_output_is_seen(data, shield, engine):
    plain, shielded = play(data, Identity(), engine=engine), play(data, shield, engine=engine)
    torch.testing.assert_close(shielded.shared["model"], plain.shared["model"], rtol=1e-4, atol=1e-6)


def test_in_a_federation_soteria_zeroes_columns_and_dp_sgd_counts_what_is_spent(data):
    plain, run = play(data, Identity()), play(data, Soteria(p=1.0))
    last = slice(-2 * 8 - 2, -2)
    start = play(data, Soteria(p=1.0), FedAvg(hidden=(8,), optimiser=SGD(1e-30), batch_size=1000)).shared["model"]
    assert torch.equal(run.shared["model"][last], start[last])
    assert not torch.equal(plain.shared["model"][last], start[last])
    noisy = play(data, DPSGD(20.0))
    (spent,) = spent_in(noisy)
    assert spent.bound == DPSGD(20.0).spent(2).bound


@pytest.mark.parametrize(
    "game",
    [
        FedAvg(hidden=(8,), optimiser=SGD(0.1), batch_size=16),
        FedAvg(hidden=(8,), optimiser=Adam(0.1), batch_size=1000),
        FedAvg(hidden=(8,), optimiser=SGD(0.1, momentum=0.5), batch_size=1000),
        FedAvg(hidden=(8,), optimiser=SGD(0.1), batch_size=1000, local_epochs=2),
    ],
)
@pytest.mark.parametrize("shield", [DPSGD(1.0), Soteria(0.5)])
def test_in_a_federation_of_other_steps_everybody_is_silent(data, game, shield):
    start = play(data, Soteria(p=1.0), FedAvg(hidden=(8,), optimiser=SGD(1e-30), batch_size=1000)).shared["model"]
    assert torch.equal(play(data, shield, game).shared["model"], start)
