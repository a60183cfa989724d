"""Attri-Fed's networks: layer norm after each ReLU; "paper" has 1024-1024, head 32, adversary and helper 1024-32."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Literal

import torch
from torch import nn

from fedveil.core.models import drawn_by_torch
from fedveil.games.attri_fed.prior import FactorisedPrior, JointPrior

Build = Callable[[torch.Generator], nn.Module]

READING = {"paper": (1024, 32), "light": (128, 32)}
"""Hidden layers of privatiser and helper; a server's attackers should be no smaller."""


@dataclass(frozen=True)
class AttriFedNetworks:
    """Builders of all players."""

    encoder: Build
    rate: Build
    head: Callable[[int], Build]
    privatiser: Callable[[int], Build]
    helper: Callable[[int, int], Build]


def attri_fed_networks(
    name: Literal["paper", "light"], features: Sequence[int], width: int, joint_reach: int | None = None
) -> AttriFedNetworks:
    """Return the builders for x of a shape and ŷ of a width; with `joint_reach` the prior is joint, over that reach.

    >>> made = attri_fed_networks("paper", (3, 28, 28), 50)
    >>> [tuple(p.shape) for p in made.encoder(torch.Generator()).parameters() if p.dim() > 1]
    [(1024, 2352), (1024, 1024), (50, 1024)]
    """
    inner, reading = (1024, 1024) if name == "paper" else (256, 128), READING[name]
    return AttriFedNetworks(
        encoder=_normed([prod(features), *inner, width], flatten=len(features) > 1),
        rate=lambda generator: FactorisedPrior(width) if joint_reach is None else JointPrior(width, joint_reach),
        head=lambda classes: _normed([width, 32, classes]),
        privatiser=lambda values: _normed([width, *reading, values]),
        helper=lambda told, classes: _normed([width + told, *reading, classes]),
    )


def _normed(sizes: Sequence[int], *, flatten: bool = False) -> Build:
    def build() -> nn.Sequential:
        stack: list[nn.Module] = [nn.Flatten()] if flatten else []
        for fan_in, fan_out in pairwise(sizes[:-1]):
            stack += [nn.Linear(fan_in, fan_out), nn.ReLU(), nn.LayerNorm(fan_out)]
        return nn.Sequential(*stack, nn.Linear(sizes[-2], sizes[-1]))

    return lambda generator: drawn_by_torch(build, generator)
