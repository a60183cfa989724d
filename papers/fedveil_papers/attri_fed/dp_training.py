"""The rival: each participant trains its encoder and head with DP-SGD (Abadi et al. 2016), accounted for by Opacus.

DP-SGD's guarantee is about training records: the *weights* reveal little about any one of them. The representations of
new records are computed with these weights and are not protected; how much they reveal is measured here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from fedveil.certificates.differential_privacy import dp_sgd_epsilon, dp_sgd_epsilon_at_order, dp_sgd_noise_multiplier
from fedveil.core.arrays import FloatArray, IntArray
from fedveil.core.errors import InputError
from fedveil.core.figures import Estimate
from fedveil.core.measures import share_right
from fedveil.core.randomness import child_seed, numpy_generator, torch_generator
from fedveil.data.attribute_data import AttributeData, Split
from fedveil.games.attri_fed.code import FARTHEST
from fedveil.games.attri_fed.game import READING, attri_fed_networks


@dataclass(frozen=True)
class DPTraining:
    """Settings of DP-SGD on each participant.

    Attributes:
        epsilon: the ε that each participant spends over all epochs, at `delta`, by composed privacy losses (PLD).
        delta: δ.
        clip: the norm to which every record's gradient is clipped.
        epochs: passes over a participant's records; batches are drawn by Poisson sampling, as the accounting requires.
        batch_size: the mean size of a batch.
        learning_rate: the step size of Adam.
        width, reach, networks: settings of the representation and its encoder, as in `games.AttriFed`.
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
        positive = (self.epsilon, self.delta, self.clip, self.learning_rate)
        if not all(value > 0 and math.isfinite(value) for value in positive) or self.delta >= 1:
            raise InputError("DP-SGD: epsilon, delta, clip and learning rate must be above 0, and delta below 1")
        if min(self.epochs, self.width, self.reach, self.batch_size) < 1 or self.reach > FARTHEST:
            raise InputError(
                f"DP-SGD: epochs, width, batch_size and reach must be at least 1, and reach at most {FARTHEST}"
            )
        if self.networks not in READING:
            raise InputError(f"DP-SGD: networks {self.networks!r} is not known: choose {', '.join(READING)}")

    def schedule(self, records: int) -> tuple[float, int, float]:
        """Return the sampling rate, the number of steps, and the noise multiplier that keeps the budget."""
        rate = min(1.0, self.batch_size / records)
        steps = max(1, round(self.epochs / rate))
        return rate, steps, _noise_multiplier(self.epsilon, rate, steps, self.delta)

    def spent(self, records: int) -> dict[str, float]:
        """Return ε by three accountants: Rényi at its best order, Rényi only at the paper's α = 100, and PRV."""
        rate, steps, noise = self.schedule(records)
        return {
            "rdp": dp_sgd_epsilon(noise, rate, steps, self.delta, accountant="rdp"),
            "rdp at order 100": dp_sgd_epsilon_at_order(noise, rate, steps, self.delta, order=100),
            "prv": dp_sgd_epsilon(noise, rate, steps, self.delta, accountant="prv"),
        }

    def train(self, x: Tensor, y: Tensor, classes: int, seed: int) -> tuple[nn.Module, nn.Module]:
        """Train one participant's encoder and head, and return both."""
        networks = attri_fed_networks(self.networks, x.shape[1:], self.width)  # type: ignore[arg-type]
        encoder = networks.encoder(torch_generator(seed, "dp", "encoder"))
        head = networks.head(classes)(torch_generator(seed, "dp", "head"))
        model = nn.Sequential(encoder, head)
        rate, steps, noise = self.schedule(len(x))
        optimiser = torch.optim.Adam(model.parameters(), self.learning_rate)
        rng = numpy_generator(seed, "dp", "batches")
        normal = torch_generator(seed, "dp", "noise")
        for _ in range(steps):
            rows = torch.from_numpy(np.flatnonzero(rng.random(len(x)) < rate))
            for parameter, total in zip(
                model.parameters(), clipped_sum(model, x[rows], y[rows], self.clip), strict=True
            ):
                drawn = torch.randn(parameter.shape, generator=normal) * noise * self.clip
                parameter.grad = (total + drawn) / (rate * len(x))
            optimiser.step()
        return encoder.eval(), head.eval()


@lru_cache(maxsize=64)
def _noise_multiplier(epsilon: float, rate: float, steps: int, delta: float) -> float:
    """Search once for all participants: they hold the same number of records, and accountants take seconds."""
    return dp_sgd_noise_multiplier(epsilon, rate, steps, delta)


def released_by(
    settings: DPTraining, data: AttributeData, parts: Sequence[IntArray], seed: int
) -> tuple[dict[Split, FloatArray], dict[Split, IntArray], dict[Split, FloatArray]]:
    """Train every participant; return representations, senders and logits by split, with records dealt at random."""
    assert data.y is not None
    x = torch.from_numpy(data.x)
    y = torch.from_numpy(data.y.codes)
    trained = [
        settings.train(x[rows], y[rows], len(data.y.values), child_seed(seed, "participant", participant))
        for participant, rows in enumerate(parts)
    ]
    values: dict[Split, FloatArray] = {}
    owners: dict[Split, IntArray] = {}
    logits: dict[Split, FloatArray] = {}
    for split in Split:
        rows = data.rows(split)
        owner = numpy_generator(seed, "deal", len(rows)).integers(0, len(parts), len(rows))
        sent = np.zeros((len(rows), settings.width))
        outputs = np.zeros((len(rows), len(data.y.values)))
        with torch.no_grad():
            for participant, (encoder, head) in enumerate(trained):
                dealt = np.flatnonzero(owner == participant)
                code = encoder(x[rows[dealt]]).clamp(-settings.reach, settings.reach).round()
                sent[dealt], outputs[dealt] = code.numpy(), head(code).numpy()
        values[split], owners[split], logits[split] = sent, owner.astype(np.int64), outputs
    return values, owners, logits


def clipped_sum(model: nn.Module, x: Tensor, y: Tensor, clip: float) -> list[Tensor]:
    """Return Σⱼ gⱼ·min(1, clip/‖gⱼ‖₂) over records, one tensor per parameter, without computing each gⱼ.

    A record's gradient of a linear layer is the outer product of its output's gradient and its input, so its norm is
    the product of their norms (Goodfellow 2015); a second pass differentiates the losses, each weighted by its record's
    factor. Layers with weights must be linear or layer norms, each used once.
    """
    if not len(x):
        return [torch.zeros_like(parameter) for parameter in model.parameters()]
    passes: list[tuple[nn.Module, Tensor, Tensor]] = []
    layers = [layer for layer in model.modules() if any(True for _ in layer.parameters(recurse=False))]
    hooks = [
        layer.register_forward_hook(lambda layer, inputs, output: passes.append((layer, inputs[0], output)))
        for layer in layers
    ]
    try:
        losses = functional.cross_entropy(model(x), y, reduction="none")
    finally:
        for hook in hooks:
            hook.remove()
    slopes = torch.autograd.grad(losses.sum(), [output for _, _, output in passes], retain_graph=True)
    squares = torch.stack(
        [_squared_norm(layer, inputs.detach(), slope) for (layer, inputs, _), slope in zip(passes, slopes, strict=True)]
    ).sum(dim=0)
    factors = (clip / squares.sqrt().clamp_min(1e-12)).clamp_max(1.0)
    return list(torch.autograd.grad((losses * factors).sum(), list(model.parameters())))


def _squared_norm(layer: nn.Module, inputs: Tensor, slope: Tensor) -> Tensor:
    """Return, for each record, the squared norm of the gradient of one layer's weights and bias."""
    if isinstance(layer, nn.Linear):
        return slope.square().sum(dim=1) * (inputs.square().sum(dim=1) + 1)
    if isinstance(layer, nn.LayerNorm):
        normed = functional.layer_norm(inputs, layer.normalized_shape, eps=layer.eps)
        return (slope * normed).square().sum(dim=1) + slope.square().sum(dim=1)
    raise InputError(f"DP-SGD: {type(layer).__name__} has weights, and its gradient per record is not implemented")


def accuracy_of(logits: Mapping[Split, FloatArray], data: AttributeData) -> Estimate:
    """Return the heads' accuracy on test people, with its interval."""
    assert data.y is not None
    rows = data.rows(Split.TEST)
    return share_right(logits[Split.TEST].argmax(axis=1) == data.y.codes[rows])
