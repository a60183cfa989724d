"""Scaling of vectors, so that an attacker of any kind can learn from them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedveil.core.arrays import FloatArray

_TAIL = 0.005
"""The share at either end of a column that its deviation ignores."""

_LINEAR_UP_TO = 10.0
"""Deviations beyond which values grow only logarithmically."""


@dataclass(frozen=True, eq=False)
class Standardiser:
    """Centre each column by its median and scale it by the deviation of its bulk, both from the attacker's data.

    It is robust on purpose: a single outlier must not blind the networks, and a large offset must not hide a small
    signal. The deviation is that of the middle 99% of a column, or of the whole column if its middle is constant.
    Beyond ten deviations values grow only logarithmically, which preserves their order for tree-based attackers.
    Columns that never vary in the attacker's data are dropped.

    Attributes:
        centre: each column's median.
        deviation: each column's scale.
        varies: which columns are kept.
    """

    centre: FloatArray
    deviation: FloatArray
    varies: npt.NDArray[np.bool_]

    @classmethod
    def fit(cls, vectors: FloatArray) -> Standardiser:
        """Estimate centre and deviation from the auxiliary vectors."""
        centre = np.median(vectors, axis=0)
        centred = vectors - centre
        largest = np.abs(centred).max(axis=0, initial=0.0)
        # Rounding errors of a constant are not a signal; 1e10 + u, in contrast, is exact in double precision.
        varies = largest > 1e-13 * np.abs(centre)
        unit = np.where(varies, largest, 1.0)  # scale first: squares of 1e200 overflow
        scaled = centred / unit
        low, high = np.quantile(scaled, [_TAIL, 1 - _TAIL], axis=0)
        bulk = np.clip(scaled, low, high).std(axis=0)
        deviation = np.where(bulk > 0, bulk, scaled.std(axis=0))
        if not varies.any():
            varies[:1] = True  # constant vectors carry no information, but every attacker must still run on them
        return cls(centre, np.where(deviation > 0, deviation, 1.0) * unit, varies)

    def apply(self, vectors: FloatArray) -> FloatArray:
        """Return vectors of any pool, standardised."""
        scaled = (vectors[:, self.varies] - self.centre[self.varies]) / self.deviation[self.varies]
        size = np.abs(scaled)
        far = size > _LINEAR_UP_TO
        scaled[far] = np.sign(scaled[far]) * (_LINEAR_UP_TO + np.log1p(size[far] - _LINEAR_UP_TO))
        return np.asarray(scaled, dtype=np.float64)
