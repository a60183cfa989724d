"""A codebook: cells of many columns at once, by k-means from counts and sums of bounded vectors."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from fedveil.core.arrays import FloatArray
from fedveil.shields.transport.counts import Counts

Rows = TypeVar("Rows", Tensor, FloatArray)
_ROUNDS = 12


def learn_codebook(
    coordinates: FloatArray, people_weights: FloatArray, start: FloatArray, bound: float, counts: Counts
) -> Tensor:
    """Return centres: Lloyd's iterations from `start`, with weighted people.

    Args:
        coordinates: people's coordinates.
        people_weights: each person's weight, at most 1.
        start: the first centres.
        bound: the largest norm that a person's coordinates can have.
        counts: asked twice in each of 12 rounds: how many people are nearest to each centre, and the sum of their
            coordinates divided by the bound.
    """
    points = torch.from_numpy(coordinates).float()
    weight = torch.from_numpy(people_weights).float()
    centres = torch.from_numpy(start).float()
    for _ in range(_ROUNDS):
        nearest = squared(points, centres).argmin(dim=1)
        mass = torch.zeros(len(centres)).index_add_(0, nearest, weight)
        sums = torch.zeros_like(centres).index_add_(0, nearest, points * weight[:, None] / bound)
        counts.record(2)
        mass = torch.from_numpy(counts.noised(mass.numpy())).float()
        sums = torch.from_numpy(counts.noised(sums.numpy())).float() * bound
        occupied = mass > 1.0
        means = sums / mass.clamp_min(1.0)[:, None]
        clipped = means * (bound / means.norm(dim=1, keepdim=True).clamp_min(bound))
        centres = torch.where(occupied[:, None], clipped, centres)
    return centres


def squared(points: Rows, centres: Rows) -> Rows:
    """Return squared distances minus each point's squared norm, which changes neither their order nor the transport."""
    distances: Rows = (centres**2).sum(1) - 2 * points @ centres.T
    return distances


def far_apart(points: FloatArray, size: int, rng: np.random.Generator) -> FloatArray:
    """Return at most `size` of the points, each far from those before (Arthur and Vassilvitskii 2007, on a sample)."""
    sample = torch.from_numpy(points[rng.choice(len(points), min(len(points), 20 * size), replace=False)]).float()
    chosen = [int(rng.integers(len(sample)))]
    distances = ((sample - sample[chosen[0]]) ** 2).sum(dim=1)
    while len(chosen) < min(size, len(sample)):
        odds = distances.double().numpy()
        total = odds.sum()
        if total <= 0:  # fewer distinct people than centres
            break
        chosen.append(int(rng.choice(len(sample), p=odds / total)))
        distances = torch.minimum(distances, ((sample - sample[chosen[-1]]) ** 2).sum(dim=1))
    return sample[chosen].numpy().astype(np.float64)
