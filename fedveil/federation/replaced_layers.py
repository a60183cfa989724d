"""Layers of torch that behave differently here, but in the same way on every engine, and what layers need to know.

Dropout draws from counted randomness instead of global state, and batch norm accepts a batch with a single value per
channel (a last batch of one): it uses its running statistics there, while torch raises an error.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from fedveil.core.errors import InputError
from fedveil.federation.counted_random import uniform


@dataclass
class Situation:
    """What layers need to know in addition to their input.

    Attributes:
        training: whether dropout drops and batch norm uses the batch.
        weights: (devices, batch), 0 for padding; None if there is no padding.
        seeds: one seed per device for counted randomness.
        step: the device's step in this round.
        call: how many random draws were made in this step.
        second_order: whether the network must stay differentiable twice.
    """

    training: bool
    weights: Tensor | None = None
    seeds: Tensor | None = None
    step: int = 0
    call: int = 0
    second_order: bool = False


class CountedDropout(nn.Dropout):
    """Dropout of one device; `now` says whose randomness it uses, and which draw."""

    now: Situation

    def forward(self, x: Tensor) -> Tensor:
        """Drop entries in training, by the device's numbers."""
        if not self.training or self.p == 0:
            return x
        assert self.now.seeds is not None
        self.now.call += 1
        mask = uniform(self.now.seeds, self.now.step, self.now.call, tuple(x.shape))[0] >= self.p
        return x * mask / (1 - self.p)


class TolerantBatchNorm1d(nn.BatchNorm1d):
    """Batch norm that uses its running statistics for a batch with one value per channel."""

    def forward(self, x: Tensor) -> Tensor:
        """Normalise."""
        return _tolerant(self, x, super().forward)


class TolerantBatchNorm2d(nn.BatchNorm2d):
    """Batch norm that uses its running statistics for a batch with one value per channel."""

    def forward(self, x: Tensor) -> Tensor:
        """Normalise."""
        return _tolerant(self, x, super().forward)


_REPLACED: dict[type[nn.Module], type[nn.Module]] = {
    nn.Dropout: CountedDropout,
    nn.BatchNorm1d: TolerantBatchNorm1d,
    nn.BatchNorm2d: TolerantBatchNorm2d,
}


def replace_layers(module: nn.Module, player: str) -> nn.Module:
    """Give a freshly built network the replaced layers; other random layers are refused, since engines would differ."""
    for name, parameter in module.named_parameters():
        if not parameter.requires_grad:
            raise InputError(f"player {player!r}: {name} is frozen; make it a buffer, or a player that never moves")
    for part in module.modules():
        if type(part) in _REPLACED:
            part.__class__ = _REPLACED[type(part)]
        elif isinstance(part, nn.modules.dropout._DropoutNd | nn.RReLU) and not isinstance(part, CountedDropout):
            raise InputError(f"player {player!r}: {type(part).__name__} is not supported; use nn.Dropout")
    return module


def _tolerant(layer: nn.BatchNorm1d | nn.BatchNorm2d, x: Tensor, forward) -> Tensor:  # type: ignore[no-untyped-def]
    uses_batch = layer.training or layer.running_mean is None
    if not uses_batch or x.numel() != x.shape[1]:
        return torch.as_tensor(forward(x))
    if layer.running_mean is None:  # no statistics: the single value is its own mean
        shape = (1, -1, *[1] * (x.dim() - 2))
        return (x - x) if layer.weight is None else (x - x) * layer.weight.view(shape) + layer.bias.view(shape)
    return functional.batch_norm(x, layer.running_mean, layer.running_var, layer.weight, layer.bias, eps=layer.eps)
