"""Bring vectors of any scale to one that every attacker can read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Standardiser:
    """Centre and scale by the attacker's own data; columns that never vary there are dropped.

    Values beyond 20 standard deviations are clipped: an outlier among the victims must not blind a network.
    """

    mean: FloatArray
    deviation: FloatArray
    varies: npt.NDArray[np.bool_]

    @classmethod
    def fit(cls, vectors: FloatArray) -> Standardiser:
        """Read mean and deviation off the auxiliary vectors."""
        largest = np.abs(vectors).max(axis=0, initial=0.0)
        unit = np.where(largest > 0, largest, 1.0)  # first to a safe size: squares of 1e200 overflow
        mean, deviation = (vectors / unit).mean(axis=0), (vectors / unit).std(axis=0)
        varies = deviation > 1e-9
        if not varies.any():
            varies[:1] = True  # a constant vector tells nothing, but must still run through every attacker
        return cls(mean * unit, np.where(deviation > 1e-9, deviation, 1.0) * unit, varies)

    def apply(self, vectors: FloatArray) -> FloatArray:
        """Standardise vectors of any pool."""
        kept = (vectors[:, self.varies] - self.mean[self.varies]) / self.deviation[self.varies]
        return np.asarray(np.clip(kept, -20, 20), dtype=np.float64)
