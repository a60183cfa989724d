"""DP-SGD on participants: clipped gradients are Opacus's, and the budget is what the accountants say."""

import numpy as np
import pytest
import torch
from fedveil_papers.attri_fed.dp_training import DPTraining, clipped_sum
from torch.nn import functional

from fedveil.core.errors import InputError
from fedveil.games.attri_fed.game import attri_fed_networks


@pytest.mark.filterwarnings("ignore")
def test_clipped_sums_are_those_of_opacus():
    from opacus import GradSampleModule

    networks = attri_fed_networks("light", (7,), 3)
    generator = torch.Generator().manual_seed(0)
    model = torch.nn.Sequential(networks.encoder(generator), networks.head(4)(generator))
    x, y = torch.randn(9, 7, generator=generator) * 3, torch.arange(9) % 4
    sums = clipped_sum(model, x, y, clip=0.5)
    peer = GradSampleModule(model, loss_reduction="sum")
    functional.cross_entropy(peer(x), y, reduction="sum").backward()
    gradients = [parameter.grad_sample for parameter in peer.parameters()]
    norms = torch.stack([gradient.flatten(1).norm(dim=1) for gradient in gradients]).norm(dim=0)
    assert (norms > 0.5).any()
    for mine, theirs in zip(sums, gradients, strict=True):
        wanted = torch.einsum("n,n...->...", (0.5 / norms).clamp_max(1.0), theirs)
        assert torch.allclose(mine, wanted, atol=1e-5)


def test_the_budget_is_kept_and_a_single_order_gives_a_larger_epsilon():
    settings = DPTraining(epsilon=2.0, epochs=4)
    rate, steps, noise = settings.schedule(500)
    assert (rate, steps) == (0.2, 20)
    spent = settings.spent(500)
    assert noise > 0.5
    assert spent["prv"] <= 2.0 * 1.05
    assert spent["rdp"] <= spent["rdp at order 100"]


def test_layers_without_a_rule_are_refused():
    with pytest.raises(InputError, match="Conv1d"):
        clipped_sum(
            torch.nn.Sequential(torch.nn.Conv1d(1, 2, 2), torch.nn.Flatten()),
            torch.zeros(2, 1, 3),
            torch.zeros(2).long(),
            1.0,
        )


def test_an_empty_batch_is_noise_alone():
    encoder = attri_fed_networks("light", (7,), 3).encoder(torch.Generator())
    sums = clipped_sum(encoder, torch.zeros(0, 7), torch.zeros(0, dtype=torch.int64), 1.0)
    assert all(float(total.abs().max()) == 0 for total in sums)


@pytest.mark.slow
def test_it_learns_when_the_budget_is_large():
    rng = np.random.default_rng(0)
    y = torch.from_numpy(rng.integers(0, 2, 300))
    x = torch.from_numpy(rng.normal(size=(300, 5)).astype(np.float32))
    x[:, 0] += 4 * y
    encoder, head = DPTraining(epsilon=50.0, epochs=10, width=4).train(x, y, 2, seed=0)
    assert ((head(encoder(x)).argmax(dim=1) == y).float().mean()) > 0.85


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"epsilon": 0.0}, "above 0"),
        ({"epsilon": float("nan")}, "above 0"),
        ({"clip": -1.0}, "above 0"),
        ({"delta": 1.0}, "delta below 1"),
        ({"epochs": 0}, "at least 1"),
        ({"batch_size": 0}, "at least 1"),
        ({"reach": -1}, "at least 1"),
        ({"reach": 5000}, "reach at most 2047"),
        ({"networks": "huge"}, "choose paper, light"),
    ],
)
def test_bad_settings_are_refused(wrong, message):
    with pytest.raises(InputError, match=message):
        DPTraining(**wrong)
