"""How much each column counts when people are moved: what it tells about the other columns. No label is read."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedveil.data.attribute import IntArray
from fedveil.transport.columns import Column
from fedveil.transport.counts import Counts, FloatArray


def centralities(
    columns: Sequence[Column], cells: Sequence[IntArray], u: IntArray, values: int, counts: Counts
) -> FloatArray:
    """Return, for each column, min(1, 2·c / max c) with c = Σ_k I(x_j; x_k | u) over the other columns, in bits.

    I is the plug-in estimate from counts of pairs with Miller and Madow's correction (1955). A column that tells
    nothing about any other, such as a survey's weights, counts nothing: whatever a task may need, chances are that the
    rest of the record does not share it.
    """
    told = np.zeros((len(columns), len(columns)))
    counts.asked(len(columns) * (len(columns) - 1) // 2)
    for one in range(len(columns)):
        for other in range(one):
            shape = (values, columns[one].cells, columns[other].cells)
            place = np.ravel_multi_index((u, cells[one], cells[other]), shape)
            table = np.maximum(counts.noised(np.bincount(place, minlength=int(np.prod(shape))).reshape(shape)), 0.0)
            told[one, other] = told[other, one] = max(0.0, _conditional_information(table))
    found: FloatArray = told.sum(axis=1)
    most = float(found.max(initial=0.0))
    return np.asarray(np.minimum(1.0, 2 * found / most) if most > 0 else np.ones(len(columns)), dtype=np.float64)


def _conditional_information(table: FloatArray) -> float:
    """Return I(a; b | u) in bits of counts (u, a, b)."""
    total = table.sum()
    if total <= 0:
        return 0.0

    def entropy(counts: FloatArray) -> float:
        share = counts[counts > 0] / total
        return float(-(share * np.log(share)).sum() + (len(share) - 1) / (2 * total))

    parts = entropy(table.sum(axis=2)) + entropy(table.sum(axis=1)) - entropy(table) - entropy(table.sum(axis=(1, 2)))
    return parts / float(np.log(2))
