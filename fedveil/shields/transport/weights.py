"""How much each column counts when people are moved: what it holds, and tells of others. No label is read."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fedveil.core.arrays import FloatArray
from fedveil.shields.transport.columns import Column
from fedveil.shields.transport.pairs import Pairs

BoolArray = npt.NDArray[np.bool_]
_ALOOF = 0.1
"""A column takes no part if what others tell about it, taken together, is less than this part of its own bits."""


def importance(pairs: Pairs) -> FloatArray:
    """Return, for each column, min(1, 2·c / max c)² · H/2, with c = Σ_k I(x_j; x_k | u) over the others and H its bits.

    Columns that many others are about count; of these, one with more cells takes more to be told apart. A column that
    tells next to nothing about any other, such as a survey's weights, counts nothing: whatever a task may need,
    chances are that the rest of the record does not share it.
    """
    shared = pairs.told().sum(axis=1)
    held = np.array([entropy(column) for column in pairs.columns])
    most = float(shared.max(initial=0.0))
    if most <= 0:
        return np.ones(len(held))
    return np.where(aloof(pairs), 0.0, np.minimum(1.0, 2 * shared / most) ** 2 * held / 2)


def aloof(pairs: Pairs) -> BoolArray:
    """Return which columns share next to nothing with others."""
    held = np.array([entropy(column) for column in pairs.columns])
    return np.asarray(pairs.told().sum(axis=1) < _ALOOF * held)


def entropy(column: Column) -> float:
    """Return the entropy of a column's cells, in bits."""
    share = column.shares[column.shares > 0]
    return float(-(share * np.log2(share)).sum())
