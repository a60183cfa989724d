"""Features of updates: each against a naive reference, with gradients that reach what they should."""

import pytest
import torch
from torch import nn

from fedveil.core.errors import InputError
from fedveil.data import load
from fedveil.federation import Federation, begin
from fedveil.federation.exchange import segments_of
from fedveil.games import AdversarialTraining, FedAvg, Raw
from fedveil.updates import FEATURES, features
from fedveil.updates.features import DIRECTIONS, max_pooled
from fedveil.updates.segments import Segment


def convolutional(generator):
    return nn.Sequential(
        nn.Unflatten(1, (1, 4, 4)), nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(), nn.Linear(12, 2)
    )


@pytest.fixture(scope="module")
def data():
    return load("synthetic", target="y", sensitive="u", n=400, bits=0.5)


@pytest.fixture(scope="module")
def run(data):
    return Federation(data, devices=8).play(FedAvg(network=convolutional, batch_size=8), rounds=1, record=[1])


def test_segments_are_the_tensors_in_the_order_of_sending(run):
    segments = segments_of(run)
    names = [segment.name for segment in segments]
    assert names == [
        "1.weight",
        "1.bias",
        "2.weight",
        "2.bias",
        "5.weight",
        "5.bias",
        "2.running_mean",
        "2.running_var",
    ]
    assert [segment.statistic for segment in segments] == [False] * 6 + [True] * 2
    (_, _, updates) = run.recorded[0]
    assert segments[-1].stop == updates.shape[1]
    model = run.model().modules["model"]
    state = dict(model.named_parameters()) | dict(model.named_buffers())
    flat = run.shared["model"][None]
    for segment in segments:
        assert torch.equal(segment.of(flat)[0], state[segment.name])


def test_an_update_holds_shared_players_only(data):
    shared = begin(Federation(data, devices=4), AdversarialTraining(attribute="u", width=3))
    assert {segment.player for segment in segments_of(shared)} == {"encoder", "head"}
    both = shared.play(1, record=[1])
    assert segments_of(both)[-1].stop == both.recorded[0][2].shape[1]
    assert segments_of(begin(Federation(data, devices=4), Raw())) == ()


def test_each_feature_is_what_a_naive_reader_computes(run):
    segments, updates = segments_of(run), run.recorded[0][2].double()
    by_name = {segment.name: segment for segment in segments}
    row = updates[3]

    def tensor(name):
        return row[by_name[name].start : by_name[name].stop].reshape(by_name[name].shape)

    rows = {how: features(updates, segments, how)[3] for how in FEATURES}
    assert torch.equal(rows["whole"], row)
    torch.testing.assert_close(rows["direction"], row / row.norm())
    window = tensor("1.weight").abs().reshape(3, 1, 9).max(dim=2).values.flatten()
    assert torch.equal(rows["max"], torch.cat([window, tensor("5.weight").abs().flatten()]))
    assert torch.equal(rows["biases"], torch.cat([tensor(n) for n in ("1.bias", "2.weight", "2.bias", "5.bias")]))
    assert torch.equal(rows["last"], torch.cat([tensor("5.weight").flatten(), tensor("5.bias")]))
    assert rows["layers"].shape == (6 * 8,)
    first = tensor("1.weight").flatten()
    six = [first.mean(), first.std(correction=0), first.abs().mean(), first.abs().max(), first.norm()]
    torch.testing.assert_close(rows["layers"][:5], torch.stack(six))
    assert rows["layers"][5] == (first > 0).double().mean()
    assert rows["projection"].shape == (DIRECTIONS,)
    assert rows["projection"].norm() == pytest.approx(float(row.norm()), rel=0.25)


def test_a_large_layer_has_one_feature_per_input_and_the_gradient_reaches_the_largest():
    segments = (Segment("m", "weight", (50, 7), 0), Segment("m", "bias", (50,), 350))
    updates = torch.randn(2, 400, generator=torch.Generator().manual_seed(0)).requires_grad_()
    pooled = max_pooled(updates, segments, large=100)
    assert pooled.shape == (2, 7)
    torch.testing.assert_close(pooled, updates[:, :350].reshape(2, 50, 7).abs().amax(dim=1))
    pooled.sum().backward()
    assert ((updates.grad != 0).sum(dim=1) == 7).all()


def test_gradients_are_finite_even_at_zero(run):
    segments = segments_of(run)
    for how in FEATURES:
        updates = torch.zeros(2, segments[-1].stop, dtype=torch.float64, requires_grad=True)
        features(updates, segments, how).sum().backward()
        assert torch.isfinite(updates.grad).all(), how


def test_the_same_update_has_the_same_projection_alone_and_among_others(run):
    segments, updates = segments_of(run), run.recorded[0][2].double()
    among = features(updates, segments, "projection")
    torch.testing.assert_close(features(updates[2:3], segments, "projection")[0], among[2])


def test_bad_input_is_refused_in_one_line(run):
    segments = segments_of(run)
    with pytest.raises(InputError, match="no features 'maximum'"):
        features(torch.zeros(1, segments[-1].stop), segments, "maximum")
    with pytest.raises(InputError, match="but the segments describe rows of"):
        features(torch.zeros(1, 5), segments)
    with pytest.raises(InputError, match="no tensors that 'biases' reads"):
        features(torch.zeros(1, 6), (Segment("m", "weight", (2, 3), 0),), "biases")
