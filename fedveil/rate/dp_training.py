"""The rival: each participant trains its encoder and head by DP-SGD (Abadi et al. 2016), through Opacus.

What DP-SGD promises is about the training records: that the *weights* tell little of any one of them. The
representations of new records pass through these weights unprotected; how much they tell is measured here.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from fedveil.certificates.differential_privacy import dp_sgd_epsilon, dp_sgd_epsilon_at_order, dp_sgd_noise_multiplier
from fedveil.data.attribute import IntArray
from fedveil.data.attribute_data import AttributeData, Split
from fedveil.errors import InputError
from fedveil.federation.view import FloatArray
from fedveil.games.attri_fed_networks import attri_fed_networks
from fedveil.randomness import child_seed, numpy_generator, torch_generator


@dataclass(frozen=True)
class DPTraining:
    """Settings of DP-SGD on each participant.

    Attributes:
        epsilon: spent by each participant over all epochs, at `delta`, by Rényi accounting.
        delta: δ.
        clip: the norm to which every record's gradient is clipped.
        epochs: passes over a participant's records; batches are drawn by Poisson sampling, as accounting asks.
        batch_size: the mean size of a batch.
        learning_rate: of Adam.
        width, reach: of the representation, as `games.AttriFed` has them.
    """

    epsilon: float = 8.0
    delta: float = 1e-5
    clip: float = 1.0
    epochs: int = 20
    batch_size: int = 100
    learning_rate: float = 2e-3
    width: int = 50
    reach: int = 15
    networks: str = "light"

    def __post_init__(self) -> None:
        if min(self.epsilon, self.delta, self.clip, self.learning_rate) <= 0 or min(self.epochs, self.width) < 1:
            raise InputError("DP-SGD: epsilon, delta, clip and learning rate must be above 0, epochs at least 1")

    def schedule(self, records: int) -> tuple[float, int, float]:
        """Return the sampling rate, the steps, and the noise multiplier that the budget asks for."""
        rate = min(1.0, self.batch_size / records)
        steps = max(1, round(self.epochs / rate))
        return rate, steps, dp_sgd_noise_multiplier(self.epsilon, rate, steps, self.delta)

    def spent(self, records: int) -> dict[str, float]:
        """Return ε by three accountants: Rényi at its best order, Rényi at the paper's α = 100 alone, and PRV."""
        rate, steps, noise = self.schedule(records)
        return {
            "rdp": dp_sgd_epsilon(noise, rate, steps, self.delta, accountant="rdp"),
            "rdp at order 100": dp_sgd_epsilon_at_order(noise, rate, steps, self.delta, order=100),
            "prv": dp_sgd_epsilon(noise, rate, steps, self.delta, accountant="prv"),
        }

    def train(self, x: Tensor, y: Tensor, classes: int, seed: int) -> tuple[nn.Module, nn.Module]:
        """Train one participant's encoder and head, and return both."""
        made = attri_fed_networks(self.networks, x.shape[1:], self.width)  # type: ignore[arg-type]
        encoder = made.encoder(torch_generator(seed, "dp", "encoder"))
        head = made.head(classes)(torch_generator(seed, "dp", "head"))
        model: Any = _wrapped(nn.Sequential(encoder, head))
        rate, steps, noise = self.schedule(len(x))
        optimiser = torch.optim.Adam(model.parameters(), self.learning_rate)
        rng = numpy_generator(seed, "dp", "batches")
        normal = torch_generator(seed, "dp", "noise")
        parameters = list(model.parameters())
        for _ in range(steps):
            rows = torch.from_numpy(np.flatnonzero(rng.random(len(x)) < rate))
            optimiser.zero_grad()
            for parameter in parameters:
                parameter.grad_sample = None
            if len(rows):
                functional.cross_entropy(model(x[rows]), y[rows], reduction="sum").backward()  # type: ignore[no-untyped-call]
            _privatise(parameters, self.clip, noise, rate * len(x), normal)
            optimiser.step()
        model.remove_hooks()
        return encoder.eval(), head.eval()


def released_by(
    settings: DPTraining, data: AttributeData, parts: Sequence[IntArray], seed: int
) -> tuple[dict[Split, FloatArray], dict[Split, IntArray], dict[Split, FloatArray]]:
    """Train every participant; return representations, senders and logits by split, records dealt at random."""
    assert data.y is not None
    x = torch.from_numpy(data.x)
    y = torch.from_numpy(data.y.codes)
    trained = [
        settings.train(x[rows], y[rows], len(data.y.values), child_seed(seed, "participant", place))
        for place, rows in enumerate(parts)
    ]
    values: dict[Split, FloatArray] = {}
    owners: dict[Split, IntArray] = {}
    logits: dict[Split, FloatArray] = {}
    for split in Split:
        rows = data.rows(split)
        owner = numpy_generator(seed, "deal", len(rows)).integers(0, len(parts), len(rows))
        sent = np.zeros((len(rows), settings.width))
        said = np.zeros((len(rows), len(data.y.values)))
        with torch.no_grad():
            for place, (encoder, head) in enumerate(trained):
                own = np.flatnonzero(owner == place)
                made = encoder(x[rows[own]]).clamp(-settings.reach, settings.reach).round()
                sent[own], said[own] = made.numpy(), head(made).numpy()
        values[split], owners[split], logits[split] = sent, owner.astype(np.int64), said
    return values, owners, logits


def _wrapped(model: nn.Module) -> Any:
    try:
        from opacus import GradSampleModule
    except ImportError:
        raise InputError("DP-SGD: per-record gradients need opacus: pip install 'fedveil[dp]'") from None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about hooks on inputs that need no gradient
        return GradSampleModule(model, loss_reduction="sum")


def _privatise(parameters: list[Any], clip: float, noise: float, batch: float, generator: torch.Generator) -> None:
    """Put the noisy mean of clipped gradients where the optimiser looks for a gradient."""
    gradients = [parameter.grad_sample for parameter in parameters]
    norms = None
    if gradients[0] is not None:
        norms = torch.stack([one.flatten(1).norm(dim=1) for one in gradients]).norm(dim=0)
    for parameter, own in zip(parameters, gradients, strict=True):
        total = torch.zeros_like(parameter)
        if norms is not None:
            total = torch.einsum("n,n...->...", (clip / norms.clamp_min(1e-12)).clamp_max(1.0), own)
        drawn = torch.randn(parameter.shape, generator=generator) * noise * clip
        parameter.grad = (total + drawn) / batch


def accuracy_of(logits: Mapping[Split, FloatArray], data: AttributeData) -> Any:
    """Return the heads' accuracy on test people, with its interval."""
    from fedveil.curious.measuring import share

    assert data.y is not None
    rows = data.rows(Split.TEST)
    return share(logits[Split.TEST].argmax(axis=1) == data.y.codes[rows])
