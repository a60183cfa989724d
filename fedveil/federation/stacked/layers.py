"""One layer of many devices at once: x is (devices, batch, …), each weight (devices, *its shape).

`STACKED` maps a layer's type to the function that runs it; a network all of whose layers are found
here takes the fast path. Padding rows (weights 0) never touch another row but through batch norm,
which is told of them.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from fedveil.federation.counted_random import uniform
from fedveil.federation.prepare import CountedDropout, TolerantBatchNorm1d, TolerantBatchNorm2d
from fedveil.federation.stacked.conv import StackedConv2d, suits
from fedveil.federation.stacked.situation import Situation

Parts = dict[str, Tensor]
Layer = Callable[[nn.Module, Parts, Tensor, Situation], Tensor]


def linear(layer: nn.Module, parts: Parts, x: Tensor, now: Situation) -> Tensor:
    """y = x Wᵀ + b."""
    transposed = parts["weight"].transpose(1, 2)
    flat = x.reshape(x.shape[0], -1, x.shape[-1])
    y = torch.baddbmm(parts["bias"].unsqueeze(1), flat, transposed) if "bias" in parts else torch.bmm(flat, transposed)
    return y.view(*x.shape[:-1], y.shape[-1])


def convolution(layer: nn.Module, parts: Parts, x: Tensor, now: Situation) -> Tensor:
    """Convolve by batched products, or as one grouped convolution with a group of channels per device."""
    assert isinstance(layer, nn.Conv1d | nn.Conv2d)
    if isinstance(layer, nn.Conv2d) and suits(layer, x) and not now.second_order:
        made: Tensor = StackedConv2d.apply(x, parts["weight"], parts.get("bias"), layer)  # type: ignore[no-untyped-call]
        return made
    devices, batch = x.shape[:2]
    weight = parts["weight"].flatten(0, 1)
    bias = parts["bias"].flatten() if "bias" in parts else None
    wide = _wide(x)
    convolve = functional.conv2d if isinstance(layer, nn.Conv2d) else functional.conv1d
    y = convolve(
        wide,
        weight,
        bias,
        layer.stride,
        layer.padding,
        layer.dilation,
        devices * layer.groups,
    )
    return y.view(batch, devices, -1, *y.shape[2:]).transpose(0, 1)


def batch_norm(layer: nn.Module, parts: Parts, x: Tensor, now: Situation) -> Tensor:
    """Normalise by each device's own batch; a batch with one value per channel uses the running statistics."""
    assert isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d)
    spread = [1] * (x.dim() - 3)
    shape = (x.shape[0], 1, x.shape[2], *spread)
    tracked = "running_mean" in parts
    if now.training or not tracked:
        axes = [1, *range(3, x.dim())]
        per_record = x[0, 0, 0].numel()
        if now.weights is None:
            count = torch.full((len(x), 1), float(x.shape[1] * per_record), dtype=x.dtype, device=x.device)
            mean, variance = x.mean(dim=axes), x.var(dim=axes, correction=0)
        else:
            w = now.weights.view(*now.weights.shape, 1, *spread)
            count = now.weights.sum(dim=1, keepdim=True) * per_record
            mean = (x * w).sum(dim=axes) / count
            variance = ((x - mean.view(shape)).square() * w).sum(dim=axes) / count
        if tracked:
            single = count <= 1
            with torch.no_grad():
                rate = (layer.momentum or 0.0) * (~single).to(x.dtype)
                unbiased = variance * (count / (count - 1).clamp_min(1))
                old_mean, old_variance = parts["running_mean"].clone(), parts["running_var"].clone()
                parts["running_mean"].add_(rate * (mean - parts["running_mean"]))
                parts["running_var"].add_(rate * (unbiased - parts["running_var"]))
            if bool(single.any()):
                mean, variance = torch.where(single, old_mean, mean), torch.where(single, old_variance, variance)
    else:
        mean, variance = parts["running_mean"], parts["running_var"]
    y = (x - mean.view(shape)) * (variance.view(shape) + layer.eps).rsqrt()
    return y * parts["weight"].view(shape) + parts["bias"].view(shape) if "weight" in parts else y


def layer_norm(layer: nn.Module, parts: Parts, x: Tensor, now: Situation) -> Tensor:
    """Normalise each record over its last axes."""
    assert isinstance(layer, nn.LayerNorm)
    y = functional.layer_norm(x, layer.normalized_shape, eps=layer.eps)
    shape = (x.shape[0], *[1] * (x.dim() - 1 - len(layer.normalized_shape)), *layer.normalized_shape)
    if "weight" in parts:
        y = y * parts["weight"].view(shape)
    return y + parts["bias"].view(shape) if "bias" in parts else y


def group_norm(layer: nn.Module, parts: Parts, x: Tensor, now: Situation) -> Tensor:
    """Normalise each record over groups of channels."""
    assert isinstance(layer, nn.GroupNorm)
    y = functional.group_norm(x.flatten(0, 1), layer.num_groups, eps=layer.eps).view(x.shape)
    shape = (x.shape[0], 1, x.shape[2], *[1] * (x.dim() - 3))
    return y * parts["weight"].view(shape) + parts["bias"].view(shape) if "weight" in parts else y


def dropout(layer: nn.Module, parts: Parts, x: Tensor, now: Situation) -> Tensor:
    """Drop by counted randomness: each device's mask is the one it would draw alone."""
    probability = float(layer.p)  # type: ignore[arg-type]
    if not now.training or probability == 0:
        return x
    assert now.seeds is not None
    now.call += 1
    kept = uniform(now.seeds, now.step, now.call, tuple(x.shape[1:])) >= probability
    return x * kept / (1 - probability)


def pooling(layer: nn.Module, parts: Parts, x: Tensor, now: Situation) -> Tensor:
    """Pool every channel of every record alone, in the order in which the convolution before has left them: no copy."""
    if x.dim() - 3 != (2 if type(layer).__name__.endswith("2d") else 1):  # no channels: torch pools records alone
        return record_by_record(layer, parts, x, now)
    if x.transpose(1, 2).is_contiguous():  # as batched products leave it: (devices, channels, batch, …)
        y = layer(x.transpose(1, 2).flatten(0, 1))
        return torch.as_tensor(y.view(x.shape[0], x.shape[2], x.shape[1], *y.shape[2:]).transpose(1, 2))
    y = layer(_wide(x))
    return torch.as_tensor(y.view(x.shape[1], x.shape[0], -1, *y.shape[2:]).transpose(0, 1))


def _wide(x: Tensor) -> Tensor:
    """Return (devices, batch, channels, …) as (batch, devices · channels, …)."""
    return x.transpose(0, 1).reshape(x.shape[1], x.shape[0] * x.shape[2], *x.shape[3:])


def record_by_record(layer: nn.Module, parts: Parts, x: Tensor, now: Situation) -> Tensor:
    """Run a layer without weights that treats every record alone, on all devices' records at once."""
    y = layer(x.flatten(0, 1))
    return torch.as_tensor(y.view(*x.shape[:2], *y.shape[1:]))


def element_by_element(layer: nn.Module, parts: Parts, x: Tensor, now: Situation) -> Tensor:
    """Run a layer that treats every number alone."""
    return torch.as_tensor(layer(x))


STACKED: dict[type[nn.Module], Layer] = {
    nn.Linear: linear,
    nn.Conv1d: convolution,
    nn.Conv2d: convolution,
    TolerantBatchNorm1d: batch_norm,
    TolerantBatchNorm2d: batch_norm,
    nn.LayerNorm: layer_norm,
    nn.GroupNorm: group_norm,
    CountedDropout: dropout,
    **dict.fromkeys(
        (
            nn.ReLU, nn.LeakyReLU, nn.ELU, nn.GELU, nn.SiLU, nn.Tanh, nn.Sigmoid, nn.Softplus, nn.Hardtanh, nn.ReLU6,
            nn.Identity,
        ),
        element_by_element,
    ),
    **dict.fromkeys(
        (
            nn.MaxPool1d, nn.MaxPool2d, nn.AvgPool1d, nn.AvgPool2d, nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d,
            nn.AdaptiveMaxPool2d,
        ),
        pooling,
    ),
    **dict.fromkeys(
        (nn.Flatten, nn.Unflatten, nn.Upsample, nn.ZeroPad2d, nn.Softmax, nn.LogSoftmax), record_by_record
    ),
}  # fmt: skip
