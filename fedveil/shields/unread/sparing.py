"""Directions that matter to the task: changes are kept off them, so that what is learned is what was learned before."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from fedveil.core.arrays import IntArray


def task_directions(updates: Tensor, labels: IntArray | None) -> Tensor:
    """Return (k, d) orthonormal rows: the mean shadow update, and where labels are known each label's mean.

    A change whose expectation is orthogonal to the mean update takes nothing from the first-order fall of the loss.
    """
    means = [updates.mean(dim=0)]
    if labels is not None:
        known = torch.from_numpy(labels)
        means += [updates[known == label].mean(dim=0) for label in np.unique(labels[labels >= 0])]
    stacked = torch.stack(means).double()
    _, sizes, rows = torch.linalg.svd(stacked, full_matrices=False)
    found: Tensor = rows[sizes > 1e-6 * sizes.max().clamp_min(1e-300)].to(updates)
    return found


def spared(change: Tensor, directions: Tensor) -> Tensor:
    """Return the change without its part along the directions."""
    return change - (change @ directions.T) @ directions
