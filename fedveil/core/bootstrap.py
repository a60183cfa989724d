"""Resampling weights: how often each record is drawn when as many are drawn with replacement.

If records belong to groups (persons, speakers), whole groups are drawn: records of one person are not independent
evidence.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from fedveil.core.arrays import IntArray

_CELLS_AT_ONCE = 8_000_000
"""How many resampling weights are held in memory at a time."""


def bootstrap_weights(
    n: int, groups: IntArray | None, draws: int, rng: np.random.Generator
) -> Iterator[npt.NDArray[np.float32]]:
    """Yield blocks of resampling weights, (draws in the block, n); the very first row is the sample itself."""
    yield np.ones((1, n), dtype=np.float32)
    unit_of_row = None if groups is None else np.unique(groups, return_inverse=True)[1]
    units = n if unit_of_row is None else int(unit_of_row.max()) + 1
    block = max(1, _CELLS_AT_ONCE // n)
    for start in range(0, draws, block):
        size = min(block, draws - start)
        drawn = rng.integers(units, size=(size, units))
        drawn += np.arange(size)[:, None] * units  # so that one pass counts all draws of the block
        counts = np.bincount(drawn.ravel(), minlength=size * units).reshape(size, units).astype(np.float32)
        yield counts if unit_of_row is None else counts[:, unit_of_row]
