"""Two layers of torch's that behave otherwise here, on every engine alike.

Dropout draws from counted randomness instead of global state, and batch norm survives a batch with a single
value per channel (a last batch of one): it uses its running statistics there, where torch refuses.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from fedveil.core.errors import InputError
from fedveil.federation.counted_random import uniform
from fedveil.federation.stacked.situation import Situation


class CountedDropout(nn.Dropout):
    """Dropout of one device; `now` says whose randomness, and which draw."""

    now: Situation

    def forward(self, x: Tensor) -> Tensor:
        """Drop entries in training, by the device's own numbers."""
        if not self.training or self.p == 0:
            return x
        assert self.now.seeds is not None
        self.now.call += 1
        kept = uniform(self.now.seeds, self.now.step, self.now.call, tuple(x.shape))[0] >= self.p
        return x * kept / (1 - self.p)


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


def prepare(module: nn.Module, player: str) -> nn.Module:
    """Let a freshly built network use the two layers; other random layers are refused, as engines would differ."""
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
    if layer.running_mean is None:  # nothing to go by: the value is its own mean
        shape = (1, -1, *[1] * (x.dim() - 2))
        return (x - x) if layer.weight is None else (x - x) * layer.weight.view(shape) + layer.bias.view(shape)
    return functional.batch_norm(x, layer.running_mean, layer.running_var, layer.weight, layer.bias, eps=layer.eps)
