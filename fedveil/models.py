"""Networks built from a shape, their weights drawn from an explicit generator."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

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
        with torch.random.fork_rng(devices=[]):  # the layer's own draw is thrown away, and must leave no trace
            linear = nn.Linear(fan_in, fan_out)
        bound = 1 / math.sqrt(fan_in)
        for parameter in linear.parameters():
            nn.init.uniform_(parameter, -bound, bound, generator=generator)
        layers += [linear, nn.ReLU()]
    return nn.Sequential(*layers[:-1], *([] if last is None else [last]))


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
