"""A zoo's members: how wide each is, how deep, and how one is stored in few bits."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn

from fedveil.core.errors import InputError

MEMBERS, NARROWEST, WIDEST = 20, 128, 2048
"""RecUP-FL §5.3: 20 members, each layer between 128 and 2,048 units."""

DEPTHS = range(2, 6)
"""Fully connected layers of a member; the paper reports no benefit beyond 3."""


def spread_widths(count: int = MEMBERS, narrowest: int = NARROWEST, widest: int = WIDEST) -> tuple[int, ...]:
    """Return widths in equal ratios from the narrowest to the widest, as multiples of eight.

    Equal ratios, not equal steps: narrow members differ most from one another, and cost least.

    >>> spread_widths(5)
    (128, 256, 512, 1024, 2048)
    """
    if count < 1 or not 1 <= narrowest <= widest:
        raise InputError(f"zoo: {count} members of widths {narrowest}-{widest}; ask for at least one, narrowest first")
    widths = np.geomspace(narrowest, widest, count) if count > 1 else np.array([float(widest)])
    return tuple(int(min(widest, max(narrowest, 8 * round(width / 8)))) for width in widths)


def hidden_sizes(width: int, depth: int = 3) -> tuple[int, ...]:
    """Return the hidden sizes of a member: each layer has half the units of the one before, but at least 128.

    `depth` counts fully connected layers, including the last one; a member narrower than 128 keeps its width.

    >>> hidden_sizes(2048), hidden_sizes(128), hidden_sizes(1024, 5)
    ((2048, 1024), (128, 128), (1024, 512, 256, 128))
    """
    if isinstance(depth, bool) or depth not in DEPTHS:
        raise InputError(f"zoo: depth is a number of layers from {DEPTHS[0]} to {DEPTHS[-1]}; got {depth}")
    if isinstance(width, bool) or not 1 <= width <= 65_536:
        raise InputError(f"zoo: a member's width is a number of units from 1 to 65536; got {width}")
    sizes = [int(width)]
    for _ in range(depth - 2):
        sizes.append(max(min(width, NARROWEST), sizes[-1] // 2))
    return tuple(sizes)


class QuantisedLinear(nn.Module):
    """A fully connected layer whose weights are whole numbers of b bits, with one scale per output.

    w ≈ s·q with q in −L … L, L = 2^(b−1) − 1, s = max|w|/L of the output's row; biases are not rounded. Weights are
    rounded to the nearest: unlike an update, a model is rounded once, so no bias accumulates.
    """

    def __init__(self, weight: Tensor, scale: Tensor, bias: Tensor) -> None:
        super().__init__()
        self.weight: Tensor
        self.scale: Tensor
        self.bias: Tensor
        for name, value in (("weight", weight), ("scale", scale), ("bias", bias)):
            self.register_buffer(name, value)

    @classmethod
    def of(cls, layer: nn.Linear, bits: int) -> QuantisedLinear:
        """Round a layer's weights."""
        levels = 2 ** (bits - 1) - 1
        weight = layer.weight.detach()
        scale = weight.abs().amax(dim=1, keepdim=True) / levels
        rounded = (weight / torch.where(scale > 0, scale, torch.ones_like(scale))).round().clamp(-levels, levels)
        return cls(rounded.to(torch.int8), scale, layer.bias.detach().clone())

    def forward(self, x: Tensor) -> Tensor:
        """Return the layer's outputs; gradients flow back to x."""
        return nn.functional.linear(x, self.weight.to(x.dtype), None) * self.scale.T + self.bias


def quantised_member(member: nn.Sequential, bits: int) -> nn.Sequential:
    """Return a member with every fully connected layer rounded."""
    return nn.Sequential(
        *(QuantisedLinear.of(layer, bits) if isinstance(layer, nn.Linear) else layer for layer in member)
    ).eval()


def member_of(tensors: Sequence[dict[str, Tensor]]) -> nn.Sequential:
    """Assemble a member from its layers' tensors; a layer with scales is rounded."""
    layers: list[nn.Module] = []
    for named in tensors:
        if "scale" in named:
            layers += [QuantisedLinear(named["weight"], named["scale"], named["bias"]), nn.ReLU()]
            continue
        outputs, inputs = named["weight"].shape
        layer = nn.Linear(inputs, outputs, device="meta", dtype=named["weight"].dtype)
        layer.load_state_dict(named, assign=True)
        layers += [layer, nn.ReLU()]
    return frozen(nn.Sequential(*layers[:-1]))


def tensors_of(member: nn.Sequential) -> list[dict[str, Tensor]]:
    """Return the tensors of each layer of a member, in order."""
    return [
        {name: tensor.detach() for name, tensor in layer.state_dict().items()}
        for layer in member
        if isinstance(layer, nn.Linear | QuantisedLinear)
    ]


def check_member(tensors: Sequence[dict[str, Tensor]], inputs: int, hidden: Sequence[int], classes: int) -> None:
    """Refuse tensors that do not form a member of these sizes; the caller adds where they come from."""
    sizes = [inputs, *hidden, classes]
    if len(tensors) != len(sizes) - 1:
        raise InputError(f"a member has {len(tensors)} layers instead of {len(sizes) - 1}")
    for named, (fan_in, fan_out) in zip(tensors, pairwise(sizes), strict=True):
        shapes = {name: tuple(tensor.shape) for name, tensor in named.items()}
        expected = {"weight": (fan_out, fan_in), "bias": (fan_out,)}
        if "scale" in shapes:
            expected["scale"] = (fan_out, 1)
        if shapes != expected or not all(bool(torch.isfinite(tensor).all()) for tensor in named.values()):
            raise InputError(
                f"a member's layer of {fan_in} × {fan_out} has other shapes, or numbers that are not finite"
            )


def frozen(member: nn.Sequential) -> nn.Sequential:
    """Return a member that no longer learns: gradients flow through it to the update, and to nothing else."""
    member.zero_grad(set_to_none=True)  # gradients that remain from training are as large as the member
    return member.requires_grad_(False).eval()
