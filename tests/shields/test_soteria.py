"""Soteria: exact Jacobian norms against one backward pass per feature, masks record by record, and when it refuses."""

import math

import pytest
import torch
from fedveil_papers.recup.laboratory import network
from torch import nn

from fedveil.core.errors import InputError
from fedveil.core.randomness import torch_generator
from fedveil.games.losses import cross_entropy
from fedveil.shields import Chain, Context, DPGaussian, Kind, Message, Samples, ShieldError, Soteria
from fedveil.shields.soteria import Defended, estimated_norms, exact_norms, signs
from fedveil.updates import Segment
from fedveil.updates.gradients import network_segments, per_sample_gradients

SHAPES = {"adult": (9,), "lfw": (1, 24, 24), "audiomnist": (1, 96, 96), "celeba": (3, 16, 16), "lenet": (1, 8, 8)}


def model_and_records(name="lfw", n=3, seed=0):
    model = network(name, SHAPES[name], torch_generator(seed, "weights"))
    x = torch.rand(n, *SHAPES[name], generator=torch_generator(seed, "x"))
    y = torch.randint(2, (n,), generator=torch_generator(seed, "y"))
    return model, x, y


def loss_of(name):
    return (lambda outputs, y: (outputs[:, 0] - y).square()) if name == "adult" else cross_entropy


def context_of(model, loss, x, y, step=1.0, device=0):
    samples = Samples(model, loss, x, y, step=step)
    return Context(device, 1, torch_generator(5, device), segments=network_segments(model), samples=samples)


def sent_by(shield, row, context):
    message, damage = shield.apply(Message(Kind.UPDATE, row[None]), context)
    return message.values[0], damage


def slow_norms(defended, x):
    """One backward pass per feature and record."""
    rows = []
    for record in x:
        inputs = record[None].clone().requires_grad_()
        r = defended.features(inputs)[0]
        rows.append([float(torch.autograd.grad(feature, inputs, retain_graph=True)[0].norm()) for feature in r])
    return torch.tensor(rows)


def defended_of(name, layer="last", n=3):
    model, x, y = model_and_records(name, n)
    samples = Samples(model, loss_of(name), x, y)
    return Defended.of(samples, network_segments(model), layer), samples


@pytest.mark.parametrize("layer", ["last", "first"])
@pytest.mark.parametrize("name", [name for name in SHAPES if name != "adult"])
def test_norms_are_those_of_one_backward_pass_per_feature(name, layer):
    defended, samples = defended_of(name, layer)
    if layer == "first" and name == "lfw":
        samples = Samples(samples.network, samples.loss, samples.x[:1], samples.y[:1])
    r, norms = exact_norms(defended.features, samples.x)
    slow = slow_norms(defended, samples.x)
    torch.testing.assert_close(r, defended.features(samples.x).detach())
    torch.testing.assert_close(norms, slow * (r != 0), rtol=1e-4, atol=1e-7)
    assert (norms > 0).any()


def test_a_layer_that_reads_the_input_itself_has_unit_norms():
    defended, samples = defended_of("adult", "first")
    x = samples.x.clone()
    x[0, 3] = 0.0
    r, norms = exact_norms(defended.features, x)
    assert torch.equal(r, x)
    assert torch.equal(norms, (x != 0).float())


def test_the_estimate_is_unbiased_and_its_error_falls_as_stated():
    defended, samples = defended_of("lfw", n=4)
    r, exact = exact_norms(defended.features, samples.x)
    live = r != 0
    errors = {}
    for probes in (16, 256):
        generator = torch_generator(7, probes)
        directions = (signs(samples.x.shape, generator, samples.x) for _ in range(probes))
        _, estimates = estimated_norms(defended.features, samples.x, directions)
        assert (estimates[~live] == 0).all()
        squares = (estimates / exact).square()[live] - 1
        assert abs(float(squares.mean())) < 4 * math.sqrt(2 / probes) / math.sqrt(4)  # features share directions
        errors[probes] = float(squares.square().mean().sqrt())
        assert errors[probes] < 1.3 * math.sqrt(2 / probes)
    assert errors[256] < errors[16] / 2.5


@pytest.mark.parametrize("p", [0.0, 0.1, 0.3, 0.5, 1.0])
def test_one_records_columns_with_the_largest_ratios_are_zero(p):
    model, x, y = model_and_records("lfw", 1)
    row = per_sample_gradients(model, cross_entropy, x, y)[0].detach()
    context = context_of(model, cross_entropy, x, y)
    sent, damage = sent_by(Soteria(p), row, context)
    segment = context.segments[-2]
    assert segment.shape == (2, 256)
    outside = torch.ones_like(row, dtype=torch.bool)
    outside[segment.start : segment.stop] = False
    assert torch.equal(sent[outside], row[outside])
    defended = Defended.of(context.samples, context.segments, "last")
    r, norms = defended.features(x).detach()[0], slow_norms(defended, x)[0]
    live = [i for i in range(len(r)) if r[i] != 0]
    worst = sorted(live, key=lambda i: -float(r[i] / norms[i]))[: math.ceil(p * len(r))]
    expected = segment.of(row[None])[0].clone()
    expected[:, worst] = 0
    assert 0 < len(live) < len(r)
    assert torch.equal(segment.of(sent[None])[0], expected)
    assert (damage.l2 > 0) == (p > 0)
    if p == 1:
        assert (expected == 0).all()


def test_dead_features_are_never_chosen_and_constant_ones_come_first():
    r, norms = torch.tensor([[0.0, 5.0, 1.0, -4.0]]), torch.tensor([[0.0, 5.0, 0.0, 1.0]])
    assert Soteria(0.25).chosen(r, norms).tolist() == [[False, False, True, False]]
    assert Soteria(0.5).chosen(r, norms).tolist() == [[False, False, True, True]]
    assert Soteria(1.0).chosen(r, norms).tolist() == [[False, True, True, True]]
    assert not Soteria(1.0).chosen(torch.zeros(2, 3), torch.zeros(2, 3)).any()


def test_norms_are_computed_only_where_some_live_features_stay(monkeypatch):
    model, x, y = model_and_records("lfw", 3)
    rows = per_sample_gradients(model, cross_entropy, x, y).detach()
    live = (Defended.of(Samples(model, cross_entropy, x, y), network_segments(model), "last").features(x) != 0).sum(
        dim=1
    )
    asked = []

    def counting(features, inputs):
        asked.append(len(inputs))
        return exact_norms(features, inputs)

    monkeypatch.setattr("fedveil.shields.soteria.exact_norms", counting)
    contexts = [context_of(model, cross_entropy, x[i : i + 1], y[i : i + 1], device=i) for i in range(3)]
    p = float(live.float().median()) / 256
    Soteria(p).change_all(rows, contexts)
    assert sum(asked) == int((live > p * 256).sum()) < 3
    asked.clear()
    sent = Soteria(0.9).change_all(rows, contexts)
    assert not asked
    assert (network_segments(model)[-2].of(sent) == 0).all()


def test_among_equal_ratios_the_earlier_is_chosen():
    assert Soteria(0.5).chosen(torch.ones(1, 4), torch.ones(1, 4)).tolist() == [[True, True, False, False]]


@pytest.mark.parametrize("step", [1.0, -0.05])
@pytest.mark.parametrize("name", ["lfw", "adult", "audiomnist"])
def test_a_device_sends_the_mean_of_its_records_masked_gradients(name, step):
    model, x, y = model_and_records(name, 4)
    loss = loss_of(name)
    rows = per_sample_gradients(model, loss, x, y).detach()
    shield = Soteria(0.4)
    one_by_one = [sent_by(shield, rows[i], context_of(model, loss, x[i : i + 1], y[i : i + 1]))[0] for i in range(4)]
    sent, damage = sent_by(shield, step * rows.mean(dim=0), context_of(model, loss, x, y, step))
    torch.testing.assert_close(sent, step * torch.stack(one_by_one).mean(dim=0), rtol=1e-4, atol=1e-7)
    assert damage.l2 > 0


@pytest.mark.parametrize("probes", [None, 8])
def test_many_devices_are_one_batch_and_a_failure_affects_no_other(probes):
    model, x, y = model_and_records("lfw", 6)
    rows = per_sample_gradients(model, cross_entropy, x, y).detach()
    rows = torch.stack([rows[0], rows[1:4].mean(dim=0), rows[4], rows[5]])
    parts = [slice(0, 1), slice(1, 4), slice(4, 5), slice(5, 6)]
    shield = Soteria(0.2, probes=probes)

    def contexts():
        return [context_of(model, cross_entropy, x[rows], y[rows], device=i) for i, rows in enumerate(parts)]

    alone = [sent_by(shield, row, context)[0] for row, context in zip(rows, contexts(), strict=True)]
    together = shield.apply_all(rows, contexts())
    broken = contexts()
    broken[2] = Context(2, 1, torch_generator(0), segments=broken[2].segments)
    without = shield.apply_all(rows, broken)
    assert isinstance(without[2], ShieldError)
    for index, row in enumerate(alone):
        torch.testing.assert_close(together[index][0].values[0], row, rtol=1e-4, atol=1e-7)
        if index != 2:
            torch.testing.assert_close(without[index][0].values[0], row, rtol=1e-4, atol=1e-7)


def test_several_steps_of_one_record_are_masked_and_of_several_records_refused():
    model, x, y = model_and_records("lfw", 2)
    delta = torch.randn(sum(p.numel() for p in model.parameters()), generator=torch_generator(3))
    sent, _ = sent_by(Soteria(1.0), delta, context_of(model, cross_entropy, x[:1], y[:1], step=None))
    segment = network_segments(model)[-2]
    defended = Defended.of(Samples(model, cross_entropy, x, y), network_segments(model), "last")
    live = defended.features(x[:1])[0] != 0
    assert (segment.of(sent[None])[0][:, live] == 0).all()
    assert torch.equal(segment.of(sent[None])[0][:, ~live], segment.of(delta[None])[0][:, ~live])
    with pytest.raises(ShieldError, match=r"no record's share .* one step of plain SGD .*; nothing is sent$"):
        sent_by(Soteria(0.5), delta, context_of(model, cross_entropy, x, y, step=None))
    with pytest.raises(ShieldError, match="do not add up to this update"):
        sent_by(Soteria(0.5), delta, context_of(model, cross_entropy, x, y))


def test_a_zero_update_passes_unharmed():
    model, x, y = model_and_records("lfw", 1)
    zero = torch.zeros(sum(p.numel() for p in model.parameters()))
    sent, damage = sent_by(Soteria(0.9), zero, context_of(model, cross_entropy, x, y))
    assert torch.equal(sent, zero)
    assert damage.cosine == 1


@pytest.mark.parametrize("p", [-0.1, 1.1, float("nan"), True])
def test_a_bad_share_is_refused(p):
    with pytest.raises(InputError, match=r"^soteria: p is the share .* in \[0, 1\]; got .*$"):
        Soteria(p)


@pytest.mark.parametrize("probes", [0, -1, 2.5, True])
def test_bad_probes_are_refused(probes):
    with pytest.raises(InputError, match=r"^soteria: probes must be a whole number"):
        Soteria(0.5, probes=probes)


def test_without_what_it_needs_nothing_is_sent():
    model, x, y = model_and_records("lfw", 1)
    row = per_sample_gradients(model, cross_entropy, x, y)[0].detach()
    good = context_of(model, cross_entropy, x, y)
    with pytest.raises(ShieldError, match="needs the records behind an update"):
        sent_by(Soteria(), row, Context(0, 1, torch_generator(0), segments=good.segments))
    with pytest.raises(ShieldError, match="no fully connected layer 'fc1'"):
        sent_by(Soteria(layer="fc1"), row, good)
    convolution = nn.Sequential(nn.Conv2d(1, 2, 24), nn.Flatten())
    flat = per_sample_gradients(convolution, cross_entropy, x, y)[0].detach()
    with pytest.raises(ShieldError, match="has no fully connected layer"):
        sent_by(Soteria(), flat, context_of(convolution, cross_entropy, x, y))
    elsewhere = Context(
        0, 1, torch_generator(0), segments=(Segment("head", "w", (len(row),), 0),), samples=good.samples
    )
    with pytest.raises(ShieldError, match="no tensors of player 'model'"):
        sent_by(Soteria(), row, elsewhere)
    with pytest.raises(ShieldError, match="numbers, but the model has"):
        sent_by(Soteria(), row[:-1], good)
    with pytest.raises(ShieldError, match="NaN"):
        sent_by(Soteria(), row * math.nan, good)


def test_after_a_certified_shield_there_are_no_records():
    model, x, y = model_and_records("lfw", 1)
    row = per_sample_gradients(model, cross_entropy, x, y)[0].detach()
    with pytest.raises(ShieldError, match="before any shield that certifies"):
        sent_by(Chain([DPGaussian(0.1), Soteria()]), row, context_of(model, cross_entropy, x, y))
    sent, _ = sent_by(Chain([Soteria(), DPGaussian(0.1)]), row, context_of(model, cross_entropy, x, y))
    assert torch.isfinite(sent).all()
