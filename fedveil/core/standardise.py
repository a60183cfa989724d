"""Scaling of vectors, so that an attacker of any kind can learn from them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedveil.core.arrays import FloatArray, FloatingArray

_TAIL = 0.005
"""The share at either end of a column that its deviation ignores."""

_LINEAR_UP_TO = 10.0
"""Deviations beyond which values grow only logarithmically."""

_ROWS_FOR_QUANTILES = 100_000
"""Medians and quantiles are estimated from this many vectors, at most, evenly spaced."""

_MOST_IN_DOUBLE = 12_500_000
"""With more of the attacker's numbers than these (100 MB), vectors are standardised into single precision."""

_CELLS_AT_ONCE = 4_000_000
"""How many numbers are held in double precision at a time: 32 MB, beside a few temporary arrays as large."""


@dataclass(frozen=True, eq=False)
class Standardiser:
    """Centre each column by its median and scale it by the deviation of its bulk, both from the attacker's data.

    It is robust on purpose: a single outlier must not blind the networks, and a large offset must not hide a small
    signal. The deviation is that of the middle 99% of a column, or of the whole column if its middle is constant.
    Beyond ten deviations values grow only logarithmically, which preserves their order for tree-based attackers.
    Columns that never vary in the attacker's data are dropped.

    It is computed in double precision block by block, and stays so, since a code may be written into the last digits of
    a column; only for over 12.5 million of the attacker's numbers is the result in single precision, to halve memory.
    Then two values of a column become equal if they differ by less than 1e-7 of their distance from the median.

    Attributes:
        centre: each column's median.
        deviation: each column's scale.
        varies: which columns are kept.
        single: whether the result is in single precision.
    """

    centre: FloatArray
    deviation: FloatArray
    varies: npt.NDArray[np.bool_]
    single: bool = False

    @classmethod
    def fit(cls, vectors: FloatingArray) -> Standardiser:
        """Estimate centre and deviation from the auxiliary vectors, a few columns at a time."""
        columns = vectors.shape[1]
        at_once = max(1, _CELLS_AT_ONCE // max(1, len(vectors)))
        blocks = [_block_scale(vectors[:, start : start + at_once]) for start in range(0, columns, at_once)]
        centre, deviation, varies = (np.concatenate(part) for part in zip(*blocks, strict=True))
        if not varies.any():
            varies[:1] = True  # constant vectors carry no information, but every attacker must still run on them
        return cls(centre, deviation, varies, single=vectors.size > _MOST_IN_DOUBLE)

    def apply(self, vectors: FloatingArray) -> FloatingArray:
        """Return vectors of any pool, standardised."""
        kept = slice(None) if self.varies.all() else self.varies
        centre, deviation = self.centre[kept], self.deviation[kept]
        answer: FloatingArray = np.empty((len(vectors), len(centre)), dtype=np.float32 if self.single else np.float64)
        at_once = max(1, _CELLS_AT_ONCE // max(1, len(centre)))
        for start in range(0, len(vectors), at_once):
            rows = slice(start, start + at_once)
            scaled = vectors[rows, kept] - centre  # in double precision, as the centre is
            scaled /= deviation
            size = np.abs(scaled)
            far = size > _LINEAR_UP_TO
            scaled[far] = np.sign(scaled[far]) * (_LINEAR_UP_TO + np.log1p(size[far] - _LINEAR_UP_TO))
            answer[rows] = scaled
        return answer


def _block_scale(vectors: FloatingArray) -> tuple[FloatArray, FloatArray, npt.NDArray[np.bool_]]:
    """Return the centre and the deviation of some columns, and whether they vary."""
    step = -(-max(1, len(vectors)) // _ROWS_FOR_QUANTILES)
    block = np.array(vectors.T, dtype=np.float64, order="C")  # a copy, with a row per column
    centre = np.median(block[:, ::step], axis=1)
    block -= centre[:, None]
    largest = np.abs(block).max(axis=1, initial=0.0)
    # Rounding errors of a constant are not a signal; 1e10 + u, in contrast, is exact in double precision.
    varies = largest > 1e-13 * np.abs(centre)
    unit = np.where(varies, largest, 1.0)  # scale first: squares of 1e200 overflow
    block /= unit[:, None]
    some = block[:, ::step]
    low, high = np.quantile(some, [_TAIL, 1 - _TAIL], axis=1)
    bulk = np.clip(some, low[:, None], high[:, None]).std(axis=1)
    deviation = np.where(bulk > 0, bulk, block.std(axis=1))
    return centre, np.where(deviation > 0, deviation, 1.0) * unit, varies
