"""TAPPFL's three networks by name, for tables and for images.

"paper" is Table 3 of Arevalo et al. (AAAI 2024): on tables f 64-128, g 64-128-4-|U| and
h 16-32-2×128-3×256-6×512-4096-512-1; on images stacks of 3 × 3 convolutions with 2 × 2 pools. Where the paper is
silent, we chose: ReLU between layers; f ends in tanh, because its theory takes r to be bounded; a pool that would leave
nothing is left out (the printed critic has six, but 32 × 32 can be halved only five times); convolutions are padded to
keep their size; x and r are joined as maps, see `joined`; and g and h start from He's weights, because under torch's
default sixteen ReLU layers start as a constant and learn nothing.

"light" has on tables the same f, a critic h of 64-64-1, and g 64-128-|U|: the printed g without its layer of four ReLU
units, behind which a g of few steps answers the same for every record and gives f nothing to descend. On images f has
two convolutions, the first on patches of 4 × 4 pixels, and g and h read maps as vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from fedveil.core.errors import InputError
from fedveil.core.models import Layers, Start, convolutions, mlp
from fedveil.games.game import Build, DataShape

Name = Literal["paper", "light"]

PAPER_CRITIC = (16, 32, *[128] * 2, *[256] * 3, *[512] * 6, 4096, 512)
PAPER_ADVERSARY = (64, 128, 4)
LIGHT_CRITIC = (64, 64)
LIGHT_ADVERSARY = (64, 128)
PAPER_EXTRACTOR_OF_IMAGES: Layers = (64, 64, "pool", 128, 128, "pool")
PAPER_ADVERSARY_OF_IMAGES: Layers = (*[256] * 3, "pool", *[512] * 3, "pool", *[512] * 3, "pool")
PAPER_CRITIC_OF_IMAGES: Layers = (
    16, "pool", 32, "pool", *[128] * 2, "pool", *[256] * 3, "pool", *[512] * 3, "pool", *[512] * 3, "pool",
)  # fmt: skip
PAPER_ADVERSARY_BEHIND, PAPER_CRITIC_BEHIND = (4096, 4096), (4096, 512)
LIGHT_EXTRACTOR_OF_IMAGES: Layers = (32, "pool", 32)
LIGHT_PATCH = 4


@dataclass(frozen=True)
class Networks:
    """Builders of the networks.

    Attributes:
        extractor: f.
        critic: h.
        adversary: returns the builder of g for an attribute with this many values.
    """

    extractor: Build
    critic: Build
    adversary: Callable[[int], Build]


def tappfl_networks(name: Name, shape: DataShape, values: int, width: int = 128) -> Networks:
    """Return the networks for a table (features,) or for images (channels, height, width).

    Args:
        name: "paper" or "light".
        shape: of the data.
        values: how many one-hot columns the critic reads in addition to x and r.
        width: dimensions of r, for tables.
    """
    paper = name == "paper"
    start: Start = "he" if paper else "torch"
    if len(shape.features) == 1:
        (features,) = shape.features
        critic = [features + width + values, *(PAPER_CRITIC if paper else LIGHT_CRITIC), 1]
        hidden = PAPER_ADVERSARY if paper else LIGHT_ADVERSARY
        return Networks(
            lambda generator: mlp([features, 64, width], generator, last=nn.Tanh()),
            lambda generator: mlp(critic, generator, start=start),
            lambda classes: lambda generator: mlp([width, *hidden, classes], generator, start=start),
        )
    if len(shape.features) != 3:
        raise InputError(f"TAPPFL: features have shape {shape.features}; it has networks for tables and for images")
    return _of_images(paper, shape.features, values, start)


def _of_images(paper: bool, features: tuple[int, ...], values: int, start: Start) -> Networks:
    channels, high, wide = features
    plan, patch = (PAPER_EXTRACTOR_OF_IMAGES, 0) if paper else (LIGHT_EXTRACTOR_OF_IMAGES, LIGHT_PATCH)
    _, inner = convolutions(features, plan, torch.Generator(), patch=patch)

    def extractor(generator: torch.Generator) -> nn.Module:
        stack, _ = convolutions(features, plan, generator, patch=patch)
        # As on tables, no ReLU before the tanh: it would halve r's range, and an f that hides all could not recover.
        without_relu = stack[:-1] if isinstance(stack[-1], nn.ReLU) else stack
        return nn.Sequential(without_relu, nn.Tanh())

    def network(shape: tuple[int, ...], layers: Layers, sizes: tuple[int, ...]) -> Build:
        def build(generator: torch.Generator) -> nn.Module:
            stack, (k, h, w) = convolutions(shape, layers, generator, start=start)
            return nn.Sequential(stack, nn.Flatten(), mlp([k * h * w, *sizes], generator, start=start))

        return build

    if paper:
        both = (channels + inner[0] + values, high, wide)
        return Networks(
            extractor,
            network(both, PAPER_CRITIC_OF_IMAGES, (*PAPER_CRITIC_BEHIND, 1)),
            lambda classes: network(inner, PAPER_ADVERSARY_OF_IMAGES, (*PAPER_ADVERSARY_BEHIND, classes)),
        )
    folded = (channels * _folds((high, wide), inner[1:]) ** 2 + inner[0] + values, *inner[1:])
    return Networks(
        extractor,
        network(folded, (), (*LIGHT_CRITIC, 1)),
        lambda classes: network(inner, (), (*LIGHT_ADVERSARY, classes)),
    )


def joined(x: Tensor, r: Tensor, u: Tensor, fold: bool = False) -> Tensor:
    """Return the critic's input: vectors are concatenated; maps become channels, and u constant planes.

    Maps need one size: r is enlarged to the size of x (the printed critic, which pools both down again), or x is folded
    to the size of r, each square of its pixels becoming channels: nothing is lost, and there is far less to convolve.

    x is (…, features) or (…, channels, height, width), u (…, values) one-hot; "…" is (batch,) or (devices, batch).

    >>> joined(torch.zeros(5, 3, 9, 9), torch.zeros(5, 7, 2, 2), torch.zeros(5, 4)).shape
    torch.Size([5, 14, 9, 9])
    >>> joined(torch.zeros(5, 3, 9, 9), torch.zeros(5, 7, 2, 2), torch.zeros(5, 4), fold=True).shape
    torch.Size([5, 86, 2, 2])
    """
    if x.dim() == u.dim():
        return torch.cat([x, r, u], dim=-1)
    if fold:
        high, wide = r.shape[-2:]
        times = _folds(x.shape[-2:], r.shape[-2:])
        padded = functional.pad(x, (0, times * wide - x.shape[-1], 0, times * high - x.shape[-2]))
        x = functional.pixel_unshuffle(padded, times)
    else:
        high, wide = x.shape[-2:]
        enlarged = functional.interpolate(r.reshape(-1, *r.shape[-3:]), size=(high, wide))
        r = enlarged.view(*r.shape[:-2], high, wide)
    planes = u[..., None, None].expand(*u.shape, high, wide)
    return torch.cat([x, r, planes], dim=-3)


def _folds(image: Sequence[int], small: Sequence[int]) -> int:
    """Return how many pixels of an image lie along one pixel of r, the image's edge being padded where needed."""
    return max(-(-size // fewer) for size, fewer in zip(image, small, strict=True))
