"""Decoys: a few mean updates, one of which is now and then sent in place of the device's own."""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from torch import Tensor

from fedveil.core.randomness import child_seed

_ROWS = 4000
"""From how many shadow updates decoys are made at most."""


Decoys = int | Literal["silence"]
"""How many mean directions; or a zero update, which says nothing, and which no round makes stale."""


def decoys_of(updates: Tensor, count: Decoys, seed: int) -> Tensor:
    """Return (count, d) mean directions of shadow updates, by k-means (Lloyd 1982) on updates scaled to norm 1.

    Means, so that the sum over many devices stays near where it was; few, so that which of them is sent says little.
    """
    from sklearn.cluster import KMeans

    if isinstance(count, str):
        return updates.new_zeros(1, updates.shape[1])
    directions = _unit(updates[:_ROWS])
    directions = directions[torch.linalg.vector_norm(directions, dim=1) > 0]
    if not len(directions):
        return updates.new_zeros(1, updates.shape[1])
    kept = min(count, len(directions))
    found = KMeans(kept, n_init=3, random_state=child_seed(seed, "decoys") % 2**31).fit(directions.numpy())
    return torch.from_numpy(np.ascontiguousarray(found.cluster_centers_)).to(updates)


def decoy_for(updates: Tensor, decoys: Tensor) -> Tensor:
    """Return each update's decoy: the nearest direction, as long as makes it nearest to the update."""
    lengths = (updates @ decoys.T) / decoys.square().sum(dim=1).clamp_min(1e-30)
    lengths = lengths.clamp_min(0)
    gains = lengths * (updates @ decoys.T)
    nearest = gains.argmax(dim=1)
    return lengths.gather(1, nearest[:, None]) * decoys[nearest]


def chances(updates: Tensor, decoys: Tensor, relative: Tensor | float) -> Tensor:
    """Return with which probability each update is replaced, so that its expected change is this share of its norm."""
    norms = torch.linalg.vector_norm(updates, dim=1)
    distances = torch.linalg.vector_norm(updates - decoys, dim=1)
    found: Tensor = torch.where(distances > 0, relative * norms / torch.where(distances > 0, distances, 1.0), 1.0)
    return found.clamp_max(1.0)


def _unit(rows: Tensor) -> Tensor:
    return torch.nn.functional.normalize(rows, dim=1, eps=1e-30)
