"""Bring vectors of any scale to one that every attacker can read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedveil.core.arrays import FloatArray

_TAIL = 0.005
_STRAIGHT = 10.0


@dataclass(frozen=True, eq=False)
class Standardiser:
    """Centre by the median and scale by the deviation of the bulk, read off the attacker's own data.

    Robust on purpose: one wild record must not blind the networks, and a large offset must not hide a small
    signal. The deviation is that of the middle 99% of a column, or of all of it where that is constant. Beyond ten
    deviations values grow logarithmically, which keeps their order for the trees. Columns that never vary in the
    attacker's data are dropped.
    """

    centre: FloatArray
    deviation: FloatArray
    varies: npt.NDArray[np.bool_]

    @classmethod
    def fit(cls, vectors: FloatArray) -> Standardiser:
        """Read centre and deviation off the auxiliary vectors."""
        centre = np.median(vectors, axis=0)
        moved = vectors - centre
        largest = np.abs(moved).max(axis=0, initial=0.0)
        # What rounding makes of a constant is no signal; 1e10 + u, in contrast, is exact in double precision.
        varies = largest > 1e-13 * np.abs(centre)
        unit = np.where(varies, largest, 1.0)  # first to a safe size: squares of 1e200 overflow
        scaled = moved / unit
        low, high = np.quantile(scaled, [_TAIL, 1 - _TAIL], axis=0)
        bulk = np.clip(scaled, low, high).std(axis=0)
        deviation = np.where(bulk > 0, bulk, scaled.std(axis=0))
        if not varies.any():
            varies[:1] = True  # a constant vector tells nothing, but must still run through every attacker
        return cls(centre, np.where(deviation > 0, deviation, 1.0) * unit, varies)

    def apply(self, vectors: FloatArray) -> FloatArray:
        """Standardise vectors of any pool."""
        kept = (vectors[:, self.varies] - self.centre[self.varies]) / self.deviation[self.varies]
        size = np.abs(kept)
        far = size > _STRAIGHT
        kept[far] = np.sign(kept[far]) * (_STRAIGHT + np.log1p(size[far] - _STRAIGHT))
        return np.asarray(kept, dtype=np.float64)
