"""Which weights a zoo's updates started from: enough of them to say how far a model has moved on since.

Kept are a digest, the norm and 256 random projections of the weights, 2 kB per round whatever the model's size; the
weights themselves would be as large as the model for every round. Distances come out within about 9% (twice 1/√512).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fedveil.updates.features import projection
from fedveil.updates.segments import Segment, checked


@dataclass(frozen=True, eq=False)
class SeenRound:
    """One round's weights: SHA-256 of their float32 numbers, ‖w‖, and P·w with P of 256 rows."""

    round: int
    digest: str
    norm: float
    projected: Tensor

    @classmethod
    def of(cls, number: int, weights: Tensor, segments: Sequence[Segment]) -> SeenRound:
        """Look at weights, in an update's order."""
        flat = weights.detach().cpu().flatten()
        return cls(int(number), weights_digest(flat), float(flat.double().norm()), projected(flat, segments))

    def distance(self, shadow: Tensor) -> float:
        """Return ‖P(w − w_zoo)‖ / ‖w_zoo‖, where `shadow` is P·w; infinite from weights that were all 0."""
        moved = float((shadow - self.projected).norm())
        return moved / self.norm if self.norm > 0 else (math.inf if moved else 0.0)


def seen_rounds(started_from: Mapping[int, Tensor], segments: Sequence[Segment]) -> tuple[SeenRound, ...]:
    """Look at the weights that each round started from."""
    return tuple(SeenRound.of(number, started_from[number], segments) for number in sorted(started_from))


def projected(weights: Tensor, segments: Sequence[Segment]) -> Tensor:
    """Project weights on the 256 directions that every zoo uses."""
    row = weights.detach().cpu().double().reshape(1, -1)
    checked(row, segments)
    return projection(row, segments)[0]


def weights_digest(weights: Tensor) -> str:
    """Return a digest of weights as little-endian float32, so that it does not depend on the machine."""
    numbers = np.ascontiguousarray(weights.detach().cpu().to(torch.float32).numpy().astype("<f4"))
    return hashlib.sha256(numbers.tobytes()).hexdigest()
