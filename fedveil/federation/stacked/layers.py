"""One layer of many devices at once: x is (devices, batch, …), each weight (devices, *its shape).

`STACKED` maps a layer's type to the function that runs it; a network takes the fast path if all of its layers are
listed there. Padding rows (weight 0) never affect another row except through batch norm, which leaves them out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from fedveil.federation.counted_random import uniform
from fedveil.federation.replaced_layers import CountedDropout, Situation, TolerantBatchNorm1d, TolerantBatchNorm2d

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
    if isinstance(layer, nn.Conv2d) and _suits(layer, x) and not now.second_order:
        y: Tensor = StackedConv2d.apply(x, parts["weight"], parts.get("bias"), layer)  # type: ignore[no-untyped-call]
        return y
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


class StackedConv2d(torch.autograd.Function):
    """A convolution of many devices as batched matrix products, with a hand-written backward pass.

    The library's grouped convolution has a slow backward pass when every device is a group of few channels. Here the
    windows of all devices are laid out once (im2col), and forward pass, weight and input gradients are one batched
    product each. x is (devices, batch, channels, height, width), weight (devices, out, in, kh, kw), bias (devices, out)
    or None.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, layer: nn.Conv2d) -> Tensor:
        """Lay the windows out and multiply."""
        rows, columns = _padding(layer)
        padded = functional.pad(x, (columns, columns, rows, rows)) if rows or columns else x
        windows, (high, wide) = _windows(padded, layer)
        flat = weight.flatten(2)
        y = torch.bmm(flat, windows) if bias is None else torch.baddbmm(bias.unsqueeze(2), flat, windows)
        ctx.save_for_backward(windows, weight)
        ctx.layer, ctx.shape, ctx.biased = layer, padded.shape, bias is not None
        return y.view(len(x), weight.shape[1], x.shape[1], high, wide).transpose(1, 2)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, error: Tensor) -> Any:
        """Multiply back; windows that overlap add up in the input's gradient."""
        windows, weight = ctx.saved_tensors
        layer, (devices, batch, channels, height, width) = ctx.layer, ctx.shape
        high, wide = error.shape[3:]
        flat = error.transpose(1, 2).reshape(devices, weight.shape[1], -1)
        for_weight = torch.bmm(flat, windows.transpose(1, 2)).view(weight.shape) if ctx.needs_input_grad[1] else None
        for_bias = flat.sum(dim=2) if ctx.biased and ctx.needs_input_grad[2] else None
        if not ctx.needs_input_grad[0]:
            return None, for_weight, for_bias, None
        spread = torch.bmm(weight.flatten(2).transpose(1, 2), flat)
        spread = spread.view(devices, channels, *layer.kernel_size, batch, high, wide)
        padded = error.new_zeros(devices, channels, batch, height, width)
        (down, across), (dilation_down, dilation_across) = layer.stride, layer.dilation
        for i in range(layer.kernel_size[0]):
            for j in range(layer.kernel_size[1]):
                top, left = i * dilation_down, j * dilation_across
                bottom, right = top + down * (high - 1) + 1, left + across * (wide - 1) + 1
                padded[..., top:bottom:down, left:right:across] += spread[:, :, i, j]
        rows, columns = _padding(layer)
        inner = padded[..., rows : height - rows, columns : width - columns]
        return inner.transpose(1, 2), for_weight, for_bias, None


def _padding(layer: nn.Conv2d) -> tuple[int, int]:
    rows, columns = (int(size) for size in layer.padding)
    return rows, columns


def _windows(x: Tensor, layer: nn.Conv2d) -> tuple[Tensor, tuple[int, int]]:
    """Return all windows as (devices, channels · kh · kw, batch · high · wide), and the output's size."""
    (kh, kw), (down, across), (dilation_down, dilation_across) = layer.kernel_size, layer.stride, layer.dilation
    high = (x.shape[3] - dilation_down * (kh - 1) - 1) // down + 1
    wide = (x.shape[4] - dilation_across * (kw - 1) - 1) // across + 1
    device, record, channel, row, column = x.stride()
    view = x.as_strided(
        (len(x), x.shape[2], kh, kw, x.shape[1], high, wide),
        (device, channel, row * dilation_down, column * dilation_across, record, row * down, column * across),
    )
    return view.reshape(len(x), x.shape[2] * kh * kw, -1), (high, wide)


def _suits(layer: nn.Conv2d, x: Tensor) -> bool:
    """Whether a layer is a plain convolution on the CPU; elsewhere the grouped convolution is faster."""
    return layer.groups == 1 and not isinstance(layer.padding, str) and x.device.type == "cpu"


def batch_norm(layer: nn.Module, parts: Parts, x: Tensor, now: Situation) -> Tensor:
    """Normalise by each device's batch; a batch with one value per channel uses the running statistics."""
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
    mask = uniform(now.seeds, now.step, now.call, tuple(x.shape[1:])) >= probability
    return x * mask / (1 - probability)


def pooling(layer: nn.Module, parts: Parts, x: Tensor, now: Situation) -> Tensor:
    """Pool every channel of every record alone, in the memory order of the preceding convolution, without a copy."""
    if x.dim() - 3 != (2 if type(layer).__name__.endswith("2d") else 1):  # no channels: torch pools records alone
        return record_by_record(layer, parts, x, now)
    if x.transpose(1, 2).is_contiguous():  # the order that batched products produce: (devices, channels, batch, …)
        y = layer(x.transpose(1, 2).flatten(0, 1))
        return torch.as_tensor(y.view(x.shape[0], x.shape[2], x.shape[1], *y.shape[2:]).transpose(1, 2))
    y = layer(_wide(x))
    return torch.as_tensor(y.view(x.shape[1], x.shape[0], -1, *y.shape[2:]).transpose(0, 1))


def _wide(x: Tensor) -> Tensor:
    """Return (devices, batch, channels, …) as (batch, devices · channels, …)."""
    return x.transpose(0, 1).reshape(x.shape[1], x.shape[0] * x.shape[2], *x.shape[3:])


def record_by_record(layer: nn.Module, parts: Parts, x: Tensor, now: Situation) -> Tensor:
    """Run a layer without weights that treats every record by itself, on all devices' records at once."""
    y = layer(x.flatten(0, 1))
    return torch.as_tensor(y.view(*x.shape[:2], *y.shape[1:]))


def element_by_element(layer: nn.Module, parts: Parts, x: Tensor, now: Situation) -> Tensor:
    """Run a layer that treats every number by itself."""
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
