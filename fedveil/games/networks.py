"""TAPPFL's three networks by name, for tables and for images.

"paper" is Table 3 of Arevalo et al. (AAAI 2024): on tables f 64-128, g 64-128-4-|U| and
h 16-32-2×128-3×256-6×512-4096-512-1; on images stacks of 3 × 3 convolutions with 2 × 2 pools. "light" has on tables
the same f and g, and a critic h of 256-256-1; on images a small stack each. Where the paper is silent, ours: ReLU
between layers; f ends in tanh, for its theory takes r to be bounded; a pool that would leave nothing is left out (the
printed critic has six, and 32 × 32 halves five times only); convolutions are padded to keep their size.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from fedveil.errors import InputError
from fedveil.games.game import DataShape
from fedveil.models import Layers, convolutions, mlp

Build = Callable[[torch.Generator], nn.Module]
Name = Literal["paper", "light"]

PAPER_CRITIC = (16, 32, *[128] * 2, *[256] * 3, *[512] * 6, 4096, 512)
LIGHT_CRITIC = (256, 256)
PAPER_EXTRACTOR_OF_IMAGES: Layers = (64, 64, "pool", 128, 128, "pool")
PAPER_ADVERSARY_OF_IMAGES: Layers = (*[256] * 3, "pool", *[512] * 3, "pool", *[512] * 3, "pool")
PAPER_CRITIC_OF_IMAGES: Layers = (
    16, "pool", 32, "pool", *[128] * 2, "pool", *[256] * 3, "pool", *[512] * 3, "pool", *[512] * 3, "pool",
)  # fmt: skip
PAPER_ADVERSARY_BEHIND, PAPER_CRITIC_BEHIND = (4096, 4096), (4096, 512)
LIGHT_EXTRACTOR_OF_IMAGES: Layers = (16, "pool", 32, "pool", 32, "pool")
LIGHT_CRITIC_OF_IMAGES: Layers = (16, "pool", 32, "pool", 32, "pool")


@dataclass(frozen=True)
class Networks:
    """Builders of an extractor, a critic, and an adversary for so many values."""

    extractor: Build
    critic: Build
    adversary: Callable[[int], Build]


def tappfl_networks(name: Name, shape: DataShape, values: int, width: int = 128) -> Networks:
    """Return the networks for a table (features,) or for images (channels, height, width).

    Args:
        name: "paper" or "light".
        shape: of the data.
        values: how many one-hot columns the critic reads beside x and r.
        width: dimensions of r, for tables.
    """
    if len(shape.features) == 1:
        (features,) = shape.features
        critic = [features + width + values, *(PAPER_CRITIC if name == "paper" else LIGHT_CRITIC), 1]
        return Networks(
            lambda generator: mlp([features, 64, width], generator, last=nn.Tanh()),
            lambda generator: mlp(critic, generator),
            lambda classes: lambda generator: mlp([width, 64, 128, 4, classes], generator),
        )
    if len(shape.features) != 3:
        raise InputError(f"TAPPFL: features have shape {shape.features}; it has networks for tables and for images")
    return _of_images(name == "paper", shape.features, values)


def _of_images(paper: bool, features: tuple[int, ...], values: int) -> Networks:
    channels, high, wide = features
    plan = PAPER_EXTRACTOR_OF_IMAGES if paper else LIGHT_EXTRACTOR_OF_IMAGES
    _, inner = convolutions(features, plan, torch.Generator())

    def extractor(generator: torch.Generator) -> nn.Module:
        return nn.Sequential(convolutions(features, plan, generator)[0], nn.Tanh())

    def critic(generator: torch.Generator) -> nn.Module:
        joined = (channels + inner[0] + values, high, wide)
        stack, (k, h, w) = convolutions(joined, PAPER_CRITIC_OF_IMAGES if paper else LIGHT_CRITIC_OF_IMAGES, generator)
        behind = [k * h * w, *(PAPER_CRITIC_BEHIND if paper else (128,)), 1]
        return nn.Sequential(stack, nn.Flatten(), mlp(behind, generator))

    def adversary(classes: int) -> Build:
        def build(generator: torch.Generator) -> nn.Module:
            stack, (k, h, w) = convolutions(inner, PAPER_ADVERSARY_OF_IMAGES if paper else (), generator)
            behind = [k * h * w, *(PAPER_ADVERSARY_BEHIND if paper else (64, 64)), classes]
            return nn.Sequential(stack, nn.Flatten(), mlp(behind, generator))

        return build

    return Networks(extractor, critic, adversary)


def joined(x: Tensor, r: Tensor, u: Tensor) -> Tensor:
    """Return what the critic reads: vectors one after another; maps as channels, r enlarged to x's size, u as planes.

    x is (…, features) or (…, channels, height, width), u (…, values) one-hot; "…" is (batch,) or (devices, batch).
    """
    if x.dim() == u.dim():
        return torch.cat([x, r, u], dim=-1)
    high, wide = x.shape[-2:]
    enlarged = functional.interpolate(r.reshape(-1, *r.shape[-3:]), size=(high, wide))
    planes = u[..., None, None].expand(*u.shape, high, wide)
    return torch.cat([x, enlarged.view(*r.shape[:-2], high, wide), planes], dim=-3)
