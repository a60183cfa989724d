"""Networks of a curious classifier and its secret attack (Malekzadeh, Borovykh and Gündüz 2021, Tables 12 and 13).

F for images: four convolutions of 2 × 2 pixels with stride 2, batch norm, LeakyReLU and dropout .2 behind each, a
hidden layer with dropout .5, and the scores. Its five widths are those of Table 7 ("128-128-64-64-128" is the paper's
own). F for tables is ours: two hidden layers with LeakyReLU and dropout .2. G reads the Y scores: 20·Y and 10·Y units.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import prod

import torch
from torch import nn

from fedveil.core.errors import InputError
from fedveil.core.models import drawn_by_torch

PAPER_WIDTHS = (128, 128, 64, 64, 128)
TABLE_WIDTHS = (128, 64)
_SLOPE = 0.01

Build = Callable[[torch.Generator], nn.Module]


def classifier(shape: Sequence[int], classes: int, widths: Sequence[int] = (), *, flat: bool = False) -> Build:
    """Return F's builder for images (channels, height, width) or for tables (features,); `flat`: images as tables.

    >>> f = classifier((3, 64, 64), 3)(torch.Generator())
    >>> sum(p.numel() for p in f.parameters())
    248963
    >>> classifier((9,), 2)(torch.Generator()).eval()(torch.zeros(5, 9)).shape
    torch.Size([5, 2])
    """
    shape = tuple(shape)
    if any(width < 1 for width in widths):
        raise InputError(f"curious: widths must be at least 1, got {tuple(widths)}")
    if len(shape) == 1 or flat:
        return lambda generator: drawn_by_torch(lambda: _of_table(shape, classes, widths or TABLE_WIDTHS), generator)
    own = tuple(widths) or PAPER_WIDTHS
    if len(shape) != 3 or min(shape[1:]) < 16:
        raise InputError(f"curious: its classifier takes tables, or images of at least 16 × 16; x has shape {shape}")
    if len(own) != len(PAPER_WIDTHS):
        raise InputError(f"curious: a classifier of images has five widths, four of them convolutions', got {own}")
    return lambda generator: drawn_by_torch(lambda: _of_images(shape, classes, own), generator)


def attack(classes: int, values: int) -> Build:
    """Return G's builder: from a classifier's Y scores to S values.

    >>> sum(p.numel() for p in attack(3, 3)(torch.Generator()).parameters())
    2163
    """

    def build() -> nn.Sequential:
        stack: list[nn.Module] = []
        sizes = (classes, 20 * classes, 10 * classes)
        for fan_in, fan_out in pairwise(sizes):
            stack += [nn.Linear(fan_in, fan_out), nn.LeakyReLU(_SLOPE), nn.Dropout(0.25)]
        return nn.Sequential(*stack, nn.Linear(sizes[-1], values))

    return lambda generator: drawn_by_torch(build, generator)


def _of_images(shape: tuple[int, ...], classes: int, widths: Sequence[int]) -> nn.Sequential:
    channels, high, wide = shape
    stack: list[nn.Module] = []
    for width in widths[:4]:
        stack += [nn.Conv2d(channels, width, 2, 2), nn.BatchNorm2d(width), nn.LeakyReLU(_SLOPE), nn.Dropout(0.2)]
        channels, high, wide = width, high // 2, wide // 2
    stack += [nn.Flatten(), nn.Linear(channels * high * wide, widths[4]), nn.LeakyReLU(_SLOPE), nn.Dropout(0.5)]
    return nn.Sequential(*stack, nn.Linear(widths[4], classes))


def _of_table(shape: tuple[int, ...], classes: int, widths: Sequence[int]) -> nn.Sequential:
    stack: list[nn.Module] = [nn.Flatten()] if len(shape) > 1 else []
    features = prod(shape)
    for width in widths:
        stack += [nn.Linear(features, width), nn.LeakyReLU(_SLOPE), nn.Dropout(0.2)]
        features = width
    return nn.Sequential(*stack, nn.Linear(features, classes))
