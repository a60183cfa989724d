"""Mean directions of shadow updates: the task's, which a change can avoid, and decoys, which can replace an update."""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from torch import Tensor

from fedveil.core.arrays import IntArray
from fedveil.core.randomness import child_seed

_ROWS = 4000
"""The most shadow updates from which decoys are computed."""

Decoys = int | Literal["silence"]
"""The number of mean directions, or a zero update, which reveals nothing and never becomes outdated."""


def task_directions(updates: Tensor, labels: IntArray | None) -> Tensor:
    """Return (k, d) orthonormal rows: the mean shadow update and, if labels are known, each label's mean.

    A change whose expectation is orthogonal to the mean update does not reduce the first-order decrease of the loss.
    """
    means = [updates.mean(dim=0)]
    if labels is not None:
        by_label = torch.from_numpy(labels)
        means += [updates[by_label == label].mean(dim=0) for label in np.unique(labels[labels >= 0])]
    stacked = torch.stack(means).double()
    _, sizes, rows = torch.linalg.svd(stacked, full_matrices=False)
    basis: Tensor = rows[sizes > 1e-6 * sizes.max().clamp_min(1e-300)].to(updates)
    return basis


def spared(change: Tensor, directions: Tensor) -> Tensor:
    """Return the change without its part along the directions."""
    return change - (change @ directions.T) @ directions


def decoys_of(updates: Tensor, count: Decoys, seed: int) -> Tensor:
    """Return (count, d) mean directions of shadow updates, by k-means (Lloyd 1982) on updates scaled to norm 1.

    They are means, so that the sum over many devices hardly changes, and few, so that the choice among them reveals
    little.
    """
    from sklearn.cluster import KMeans

    if isinstance(count, str):
        return updates.new_zeros(1, updates.shape[1])
    unit = torch.nn.functional.normalize(updates[:_ROWS], dim=1, eps=1e-30)
    unit = unit[torch.linalg.vector_norm(unit, dim=1) > 0]
    if not len(unit):
        return updates.new_zeros(1, updates.shape[1])
    clusters = KMeans(min(count, len(unit)), n_init=3, random_state=child_seed(seed, "decoys") % 2**31)
    return torch.from_numpy(np.ascontiguousarray(clusters.fit(unit.numpy()).cluster_centers_)).to(updates)


def decoy_for(updates: Tensor, decoys: Tensor) -> Tensor:
    """Return each update's decoy: the nearest direction, scaled to be as near to the update as possible."""
    lengths = (updates @ decoys.T) / decoys.square().sum(dim=1).clamp_min(1e-30)
    lengths = lengths.clamp_min(0)
    gains = lengths * (updates @ decoys.T)
    nearest = gains.argmax(dim=1)
    return lengths.gather(1, nearest[:, None]) * decoys[nearest]


def replacement_chances(updates: Tensor, decoys: Tensor, relative: Tensor | float) -> Tensor:
    """Return the probability of replacing each update at which its expected change is this share of its norm."""
    norms = torch.linalg.vector_norm(updates, dim=1)
    distances = torch.linalg.vector_norm(updates - decoys, dim=1)
    chances: Tensor = torch.where(distances > 0, relative * norms / torch.where(distances > 0, distances, 1.0), 1.0)
    return chances.clamp_max(1.0)
