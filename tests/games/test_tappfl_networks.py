"""TAPPFL's networks: initial weights under which deep critics vary, patches, and maps joined without loss."""

import pytest
import torch
from torch.nn.functional import pixel_shuffle

from fedveil.core.models import convolutions, mlp
from fedveil.games import DataShape
from fedveil.games.tappfl_networks import PAPER_CRITIC, joined, tappfl_networks


@torch.no_grad()
def _spread(start):
    x = torch.randn(400, 240, generator=torch.Generator().manual_seed(1))
    return float(mlp([240, *PAPER_CRITIC, 1], torch.Generator().manual_seed(0), start=start)(x).std())


def test_the_printed_critic_starts_as_a_constant_but_for_he_s_weights():
    assert _spread("torch") < 1e-5
    assert 0.1 < _spread("he") < 10


@pytest.mark.parametrize(("kind", "low", "high"), [("torch", 0.0, 0.02), ("he", 0.3, 3.0)])
@torch.no_grad()
def test_convolutions_start_the_same_way(kind, low, high):
    layers = [16] * 6
    stack, _ = convolutions((3, 16, 16), layers, torch.Generator().manual_seed(0), start=kind)
    x = torch.randn(64, 3, 16, 16, generator=torch.Generator().manual_seed(1))
    ratio = float(stack(x).std(dim=0).mean() / x.std())
    assert low < ratio < high
    weights, biases = stack[2].weight, stack[2].bias
    if kind == "he":
        assert float(weights.std()) == pytest.approx((2 / (9 * 16)) ** 0.5, rel=0.1)
        assert not biases.any()


def test_the_same_generator_gives_the_same_weights():
    first, other = (mlp([4, 8, 2], torch.Generator().manual_seed(3), start="he")[0].weight for _ in range(2))
    assert torch.equal(first, other)


@pytest.mark.parametrize("size", [(32, 32), (28, 28), (9, 7), (2, 3)])
def test_patches_make_the_shape_they_say(size):
    stack, (k, high, wide) = convolutions((3, *size), [4, "pool", 6], torch.Generator(), patch=4)
    assert stack(torch.zeros(2, 3, *size)).shape == (2, k, high, wide)


def test_folding_loses_nothing_and_enlarging_keeps_x():
    x = torch.arange(2 * 3 * 4 * 4.0).view(2, 3, 4, 4)
    r, u = torch.rand(2, 5, 2, 2), torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    folded = joined(x, r, u, fold=True)
    assert torch.equal(pixel_shuffle(folded[:, :12], 2), x)
    assert torch.equal(folded[:, 12:17], r)
    assert torch.equal(folded[:, 17:].amax(dim=(2, 3)), u)
    large = joined(x, r, u)
    assert torch.equal(large[:, :3], x)
    assert torch.equal(large[:, 3:8, ::2, ::2], r)
    stacked = joined(x[:, None], r[:, None], u[:, None], fold=True)
    assert torch.equal(stacked[:, 0], folded)


@pytest.mark.parametrize("name", ["light", "paper"])
@pytest.mark.parametrize("size", [8, 14])
def test_the_critic_reads_what_is_joined(name, size):
    built = tappfl_networks(name, DataShape((1, size, size), None, {}), 2)
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(2, 1, size, size)
    r = built.extractor(generator)(x)
    assert built.critic(generator)(joined(x, r, torch.eye(2), name == "light")).shape == (2, 1)
    assert built.adversary(3)(generator)(r).shape == (2, 3)


def test_the_light_critic_has_a_three_hundredth_of_the_weights():
    counts = {}
    for name in ("light", "paper"):
        critic = tappfl_networks(name, DataShape((106,), None, {}), 2).critic(torch.Generator())
        counts[name] = sum(parameter.numel() for parameter in critic.parameters())
    assert counts["paper"] > 290 * counts["light"]
