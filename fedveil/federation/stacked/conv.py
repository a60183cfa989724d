"""A convolution of many devices as batched matrix products, with a hand-written backward pass.

The library's grouped convolution is slow on the way back when every device is a group of few channels. Here the
windows of all devices are laid out once (im2col), and forward pass, weight and input gradients are one batched
product each.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


def suits(layer: nn.Conv2d, x: Tensor) -> bool:
    """Whether a layer is a plain convolution on the CPU; elsewhere the grouped convolution serves better."""
    return layer.groups == 1 and not isinstance(layer.padding, str) and x.device.type == "cpu"


class StackedConv2d(torch.autograd.Function):
    """x (devices, batch, channels, height, width), weight (devices, out, in, kh, kw), bias (devices, out) or None."""

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
        (down, across), (apart_down, apart_across) = layer.stride, layer.dilation
        for i in range(layer.kernel_size[0]):
            for j in range(layer.kernel_size[1]):
                top, left = i * apart_down, j * apart_across
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
    (kh, kw), (down, across), (apart_down, apart_across) = layer.kernel_size, layer.stride, layer.dilation
    high = (x.shape[3] - apart_down * (kh - 1) - 1) // down + 1
    wide = (x.shape[4] - apart_across * (kw - 1) - 1) // across + 1
    device, record, channel, row, column = x.stride()
    view = x.as_strided(
        (len(x), x.shape[2], kh, kw, x.shape[1], high, wide),
        (device, channel, row * apart_down, column * apart_across, record, row * down, column * across),
    )
    return view.reshape(len(x), x.shape[2] * kh * kw, -1), (high, wide)
