"""Networks built from a shape, with weights drawn from an explicit generator."""

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
"""How weights are drawn; neither way uses torch's global state.

"torch" is torch's default: weights and biases from U(−1/√fan_in, 1/√fan_in). Each ReLU layer then passes on about a
sixth of its input's variance, and a deep network starts as nearly constant. "he" (He, Zhang, Ren and Sun 2015) draws
weights from N(0, 2/fan_in), which preserves the variance through any number of ReLU layers; biases start at 0.
"""


def mlp(
    sizes: Sequence[int], generator: torch.Generator, *, last: nn.Module | None = None, start: Start = "torch"
) -> nn.Sequential:
    """Return Linear layers of the given sizes with ReLU between them, followed by `last` if given.

    >>> mlp([4, 8, 2], torch.Generator().manual_seed(0))(torch.zeros(3, 4)).shape
    torch.Size([3, 2])
    """
    layers: list[nn.Module] = []
    for fan_in, fan_out in pairwise(sizes):
        layers += [_drawn(lambda a=fan_in, b=fan_out: nn.Linear(a, b), fan_in, generator, start), nn.ReLU()]  # type: ignore[misc]
    return nn.Sequential(*layers[:-1], *([] if last is None else [last]))


Layers = Sequence[int | Literal["pool"]]
"""The channels of each 3 × 3 convolution, with "pool" for a 2 × 2 pool."""


def convolutions(
    shape: Sequence[int], layers: Layers, generator: torch.Generator, *, start: Start = "torch", patch: int = 0
) -> tuple[nn.Sequential, tuple[int, int, int]]:
    """Return 3 × 3 convolutions that preserve height and width, each followed by ReLU, and the shape of their output.

    A pool is skipped if height or width is already 1. With `patch`, the first convolution reads adjacent squares of
    `patch` × `patch` pixels: height and width shrink by that factor, and the cost of the next layers by its square.

    >>> convolutions((3, 8, 8), [4, "pool", 6, "pool"], torch.Generator())[1]
    (6, 2, 2)
    >>> convolutions((3, 8, 8), [4, 6, "pool"], torch.Generator(), patch=4)[1]
    (6, 1, 1)
    """
    channels, height, width = shape
    stack: list[nn.Module] = []
    for index, layer in enumerate(layers):
        if isinstance(layer, str):
            if min(height, width) > 1:
                stack.append(nn.MaxPool2d(2))
                height, width = height // 2, width // 2
            continue
        side = min(patch, height, width) if patch and not index else 3
        step, padding = (side, 0) if patch and not index else (1, 1)
        stack.append(
            _drawn(
                lambda a=channels, b=layer, k=side, s=step, p=padding: nn.Conv2d(a, b, k, s, p),  # type: ignore[misc]
                side * side * channels,
                generator,
                start,
            )
        )
        stack.append(nn.ReLU())
        channels, height, width = layer, height // step, width // step
    return nn.Sequential(*stack), (channels, height, width)


def _drawn(make: Callable[[], nn.Module], fan_in: int, generator: torch.Generator, start: Start) -> nn.Module:
    """Build a layer and draw its weights and biases."""
    with torch.random.fork_rng(devices=[]):  # torch draws weights as well; they are replaced below
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
    """Build a network whose weights follow torch's defaults, drawn from this generator alone."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(int(torch.randint(2**62, (1,), generator=generator)))
        return build()


def pick_device(device: str = "auto") -> torch.device:
    """Return the named device; "auto" is a GPU if there is one. A device that this machine lacks is an `InputError`."""
    if device != "auto":
        try:
            return torch.empty(0, device=device).device
        except (RuntimeError, AssertionError) as fault:
            raise InputError(f"device {device!r} cannot be used on this machine; choose auto or cpu") from fault
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
