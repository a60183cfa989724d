"""The weights that a zoo's updates started from, in a short form that still shows how far a model has moved since.

For each round a digest, the norm and a sketch of 256 numbers are kept, 2 kB whatever the model's size; the weights
themselves would take as much as the model for every round. The sketch S (Charikar, Chen and Farach-Colton 2002) adds
every weight, with a random sign, to one of 256 sums: E‖S v‖² = ‖v‖², with a variance of at most 2‖v‖⁴/256. Distances
are therefore accurate to about 9% (two standard deviations), from one pass over the weights.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fedveil.core.randomness import torch_generator
from fedveil.updates.segments import Segment, checked

SUMS = 256
"""How many numbers a sketch has."""


@dataclass(frozen=True, eq=False)
class SeenRound:
    """One round's weights: SHA-256 of their float32 numbers, ‖w‖, and their sketch S·w."""

    round: int
    digest: str
    norm: float
    sketch: Tensor

    @classmethod
    def of(cls, number: int, weights: Tensor, segments: Sequence[Segment]) -> SeenRound:
        """Summarise weights, in an update's order."""
        flat = weights.detach().cpu().flatten()
        return cls(int(number), weights_digest(flat), float(flat.double().norm()), sketched(flat, segments))

    def distance(self, sketch: Tensor) -> float:
        """Return ‖S(w − w_zoo)‖ / ‖w_zoo‖ from S·w; infinite from weights that were all 0."""
        moved = float((sketch - self.sketch).norm())
        return moved / self.norm if self.norm > 0 else (math.inf if moved else 0.0)


def seen_rounds(started_from: Mapping[int, Tensor], segments: Sequence[Segment]) -> tuple[SeenRound, ...]:
    """Summarise the weights that each round started from."""
    return tuple(SeenRound.of(number, started_from[number], segments) for number in sorted(started_from))


def sketched(weights: Tensor, segments: Sequence[Segment]) -> Tensor:
    """Sketch weights, in an update's order, with the sums and signs that every zoo uses."""
    row = weights.detach().cpu().double().reshape(1, -1)
    checked(row, segments)
    generator = torch_generator(0, "zoo's sketch of weights")
    sums = torch.randint(SUMS, (row.shape[1],), generator=generator)
    signs = torch.randint(2, (row.shape[1],), generator=generator) * 2 - 1
    return torch.zeros(SUMS, dtype=torch.float64).index_add_(0, sums, row[0] * signs)


def weights_digest(weights: Tensor) -> str:
    """Return a digest of weights as little-endian float32, so that it does not depend on the machine."""
    numbers = np.ascontiguousarray(weights.detach().cpu().to(torch.float32).numpy().astype("<f4"))
    return hashlib.sha256(numbers.tobytes()).hexdigest()
