"""Networks built from a shape, their weights drawn from an explicit generator."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Literal

import torch
from torch import nn

from fedveil.errors import InputError


def mlp(sizes: Sequence[int], generator: torch.Generator, *, last: nn.Module | None = None) -> nn.Sequential:
    """Return Linear layers of the given sizes with ReLU between them, and `last` behind them where wanted.

    Weights and biases follow U(−1/√fan_in, 1/√fan_in), torch's own default, without its global state.

    >>> mlp([4, 8, 2], torch.Generator().manual_seed(0))(torch.zeros(3, 4)).shape
    torch.Size([3, 2])
    """
    layers: list[nn.Module] = []
    for fan_in, fan_out in pairwise(sizes):
        layers += [_drawn(lambda a=fan_in, b=fan_out: nn.Linear(a, b), fan_in, generator), nn.ReLU()]  # type: ignore[misc]
    return nn.Sequential(*layers[:-1], *([] if last is None else [last]))


Layers = Sequence[int | Literal["pool"]]
"""Channels of 3 × 3 convolutions, and 2 × 2 pools between them."""


def convolutions(
    shape: Sequence[int], layers: Layers, generator: torch.Generator
) -> tuple[nn.Sequential, tuple[int, int, int]]:
    """Return 3 × 3 convolutions that keep their size, ReLU behind each, and the shape of what they make.

    A pool that would leave nothing is left out.

    >>> convolutions((3, 8, 8), [4, "pool", 6, "pool"], torch.Generator())[1]
    (6, 2, 2)
    """
    channels, high, wide = shape
    stack: list[nn.Module] = []
    for layer in layers:
        if isinstance(layer, str):
            if min(high, wide) > 1:
                stack.append(nn.MaxPool2d(2))
                high, wide = high // 2, wide // 2
            continue
        made = _drawn(lambda a=channels, b=layer: nn.Conv2d(a, b, 3, padding=1), 9 * channels, generator)  # type: ignore[misc]
        stack += [made, nn.ReLU()]
        channels = layer
    return nn.Sequential(*stack), (channels, high, wide)


def _drawn(make: Callable[[], nn.Module], fan_in: int, generator: torch.Generator) -> nn.Module:
    """Make a layer and draw its weights and biases."""
    with torch.random.fork_rng(devices=[]):  # the layer's own draw is thrown away, and must leave no trace
        layer = make()
    bound = 1 / math.sqrt(fan_in)
    for parameter in layer.parameters():
        nn.init.uniform_(parameter, -bound, bound, generator=generator)
    return layer


def pick_device(device: str = "auto") -> torch.device:
    """Return the named device; "auto" is a GPU where there is one. One that is not here is an `InputError`."""
    if device != "auto":
        try:
            return torch.empty(0, device=device).device
        except (RuntimeError, AssertionError) as fault:
            raise InputError(f"device {device!r} cannot be used on this machine; choose auto or cpu") from fault
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
