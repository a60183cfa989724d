"""Networks built from a shape, their weights drawn from an explicit generator."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Literal, TypeVar

import torch
from torch import nn

from fedveil.core.errors import InputError

Built = TypeVar("Built", bound=nn.Module)
Start = Literal["torch", "he"]
"""How weights are drawn, none from torch's global state.

"torch" is its own default, weights and biases from U(−1/√fan_in, 1/√fan_in): each ReLU layer then hands on about a
sixth of its input's variance, and a deep stack starts as a constant. "he" (He, Zhang, Ren and Sun 2015) draws weights
from N(0, 2/fan_in), which keeps the variance through any number of ReLU layers; biases start at 0.
"""


def mlp(
    sizes: Sequence[int], generator: torch.Generator, *, last: nn.Module | None = None, start: Start = "torch"
) -> nn.Sequential:
    """Return Linear layers of the given sizes with ReLU between them, and `last` behind them where wanted.

    >>> mlp([4, 8, 2], torch.Generator().manual_seed(0))(torch.zeros(3, 4)).shape
    torch.Size([3, 2])
    """
    layers: list[nn.Module] = []
    for fan_in, fan_out in pairwise(sizes):
        layers += [_drawn(lambda a=fan_in, b=fan_out: nn.Linear(a, b), fan_in, generator, start), nn.ReLU()]  # type: ignore[misc]
    return nn.Sequential(*layers[:-1], *([] if last is None else [last]))


Layers = Sequence[int | Literal["pool"]]
"""Channels of 3 × 3 convolutions, and 2 × 2 pools between them."""


def convolutions(
    shape: Sequence[int], layers: Layers, generator: torch.Generator, *, start: Start = "torch", patch: int = 0
) -> tuple[nn.Sequential, tuple[int, int, int]]:
    """Return 3 × 3 convolutions that keep their size, ReLU behind each, and the shape of what they make.

    A pool that would leave nothing is left out. With `patch` the first convolution reads squares of so many pixels,
    side by side: what follows is smaller by that factor, and cheaper by its square.

    >>> convolutions((3, 8, 8), [4, "pool", 6, "pool"], torch.Generator())[1]
    (6, 2, 2)
    >>> convolutions((3, 8, 8), [4, 6, "pool"], torch.Generator(), patch=4)[1]
    (6, 1, 1)
    """
    channels, high, wide = shape
    stack: list[nn.Module] = []
    for place, layer in enumerate(layers):
        if isinstance(layer, str):
            if min(high, wide) > 1:
                stack.append(nn.MaxPool2d(2))
                high, wide = high // 2, wide // 2
            continue
        side = min(patch, high, wide) if patch and not place else 3
        step, padding = (side, 0) if patch and not place else (1, 1)
        stack.append(
            _drawn(
                lambda a=channels, b=layer, k=side, s=step, p=padding: nn.Conv2d(a, b, k, s, p),  # type: ignore[misc]
                side * side * channels,
                generator,
                start,
            )
        )
        stack.append(nn.ReLU())
        channels, high, wide = layer, high // step, wide // step
    return nn.Sequential(*stack), (channels, high, wide)


def _drawn(make: Callable[[], nn.Module], fan_in: int, generator: torch.Generator, start: Start) -> nn.Module:
    """Make a layer and draw its weights and biases."""
    with torch.random.fork_rng(devices=[]):  # the layer's own draw is thrown away, and must leave no trace
        layer = make()
    bound = 1 / math.sqrt(fan_in)
    for parameter in layer.parameters():
        if start == "torch":
            nn.init.uniform_(parameter, -bound, bound, generator=generator)
        elif parameter.dim() > 1:
            nn.init.normal_(parameter, 0.0, math.sqrt(2) * bound, generator=generator)
        else:
            nn.init.zeros_(parameter)
    return layer


def drawn_by_torch(build: Callable[[], Built], generator: torch.Generator) -> Built:
    """Build a network by torch's own rules for weights, from this generator alone."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(int(torch.randint(2**62, (1,), generator=generator)))
        return build()


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
