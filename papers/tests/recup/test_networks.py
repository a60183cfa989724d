"""Per-record gradients: by hand against torch's own, for every network of the laboratory."""

import pytest
import torch
from fedveil_papers.recup.laboratory.networks import NETWORKS, network
from fedveil_papers.recup.laboratory.task import squared_to_label
from torch import nn

from fedveil.core.errors import InputError
from fedveil.games.losses import cross_entropy
from fedveil.updates import features
from fedveil.updates.gradients import network_segments, per_sample_gradients

SHAPES = {"adult": (7,), "lfw": (3, 30, 24), "audiomnist": (1, 112, 112), "celeba": (3, 32, 32), "lenet": (1, 12, 12)}
SHAPES["lfw-on-pixels"] = SHAPES["lfw"]


@pytest.mark.parametrize("name", list(NETWORKS))
def test_each_row_is_the_gradient_of_one_record(name):
    model = network(name, SHAPES[name], torch.Generator().manual_seed(0)).double()
    x = torch.rand(4, *SHAPES[name], generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    y = torch.tensor([0, 1, 1, 0])
    loss = squared_to_label if name == "adult" else cross_entropy
    rows = per_sample_gradients(model, loss, x, y)
    for record in range(4):
        model.zero_grad()
        loss(model(x[record : record + 1]), y[record : record + 1]).sum().backward()
        true = torch.cat([parameter.grad.flatten() for parameter in model.parameters()])
        assert torch.allclose(rows[record], true, atol=1e-12)
    assert network_segments(model)[-1].stop == rows.shape[1]


def test_an_unknown_layer_is_computed_record_by_record():
    model = nn.Sequential(nn.Linear(5, 4), nn.LayerNorm(4), nn.Linear(4, 2)).double()
    x, y = torch.rand(3, 5, dtype=torch.float64), torch.tensor([0, 1, 0])
    rows = per_sample_gradients(model, cross_entropy, x, y)
    cross_entropy(model(x), y).mean().backward()
    assert torch.allclose(rows.mean(dim=0), torch.cat([p.grad.flatten() for p in model.parameters()]), atol=1e-12)


def test_networks_are_the_papers():
    grey = network_segments(network("lfw", (1, 62, 47), torch.Generator()))
    assert features(torch.zeros(1, grey[-1].stop), grey, "max").shape[1] == 5728
    colour = network_segments(network("lfw", (3, 62, 47), torch.Generator()))
    assert features(torch.zeros(1, colour[-1].stop), colour, "max").shape[1] == 5792
    adult = network_segments(network("adult", (103,), torch.Generator()))
    assert features(torch.zeros(1, adult[-1].stop), adult, "max").shape[1] == 153
    audio = network("audiomnist", (1, 224, 224), torch.Generator(), 10)
    assert [tuple(p.shape) for p in audio.parameters()][-4:] == [(32, 576), (32,), (10, 32), (10,)]


def test_the_same_generator_draws_the_same_network():
    first, second = (network("lenet", (3, 16, 16), torch.Generator().manual_seed(3)) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))


def test_what_cannot_be_built_is_refused_in_one_line():
    with pytest.raises(InputError, match="did you mean 'lfw'"):
        network("lfv", (3, 62, 47), torch.Generator())
    with pytest.raises(InputError, match="too small"):
        network("lfw", (3, 8, 8), torch.Generator())


def test_recovered_inputs_are_the_inputs_and_resist_noise():
    model = network("adult", (20,), torch.Generator().manual_seed(0))
    x = torch.rand(30, 20)
    rows = per_sample_gradients(model, squared_to_label, x, torch.zeros(30, dtype=torch.long))
    segments = network_segments(model)
    recovered = features(rows, segments, "recovered")
    assert recovered.shape == (30, 20 + 50)
    assert torch.allclose(recovered[:, :20], x, atol=1e-4)
    noise = torch.randn(rows.shape, generator=torch.Generator().manual_seed(0))
    noise *= 0.3 * rows.norm(dim=1, keepdim=True) / noise.norm(dim=1, keepdim=True)
    off = (features(rows + noise, segments, "recovered")[:, :20] - x).norm(dim=1) / x.norm(dim=1)
    assert float(off.median()) < 0.15  # half of the noise's share, although it is 30% of the update
    assert torch.equal(features(rows * 0, segments, "recovered"), torch.zeros(30, 70))


@pytest.mark.parametrize("name", list(NETWORKS))
def test_clients_of_several_records_send_their_mean(name):
    model = network(name, SHAPES[name], torch.Generator().manual_seed(0)).double()
    x = torch.rand(6, *SHAPES[name], generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    y = torch.tensor([0, 1, 1, 0, 1, 1])
    loss = squared_to_label if name == "adult" else cross_entropy
    alone = per_sample_gradients(model, loss, x, y)
    assert torch.allclose(per_sample_gradients(model, loss, x, y, 3), alone.view(2, 3, -1).mean(dim=1), atol=1e-12)
