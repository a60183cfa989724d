"""What whoever receives a classifier's outputs can see in them, as columns for the attackers."""

from __future__ import annotations

import numpy as np

from fedveil.audit.outputs import Outputs
from fedveil.core.arrays import FloatArray, IntArray

_SMALLEST = 1e-16
"""Probabilities below this count as this: the logarithm of a 0 must stay a number."""

_LEAST_IN_CELL = 20
"""A combination of y and ŷ with fewer records than this gets no column of its own."""


def seen(outputs: Outputs) -> FloatArray:
    """Return all that the scores show: raw scores if there are any, probabilities, log-odds and entropy.

    Log-odds stand beside probabilities because 1 − 1e-9 and 1 − 1e-6 are one number to whoever standardises p, and
    far apart to a server that looks closely. Entropy stands there because a linear attacker cannot form it.
    """
    p = outputs.soft
    rest = np.stack([np.delete(p, k, axis=1).sum(axis=1) for k in range(p.shape[1])], axis=1)  # exact near 1: not 1 − p
    odds = np.log(np.maximum(p, _SMALLEST)) - np.log(np.maximum(rest, _SMALLEST))
    first = 1 if p.shape[1] == 2 else 0  # of two probabilities one says it all
    columns = [p[:, first:], odds[:, first:], outputs.entropies[:, None]]
    return np.hstack([outputs.scores, *columns] if outputs.raw else columns)


def cells_of(outputs: Outputs) -> IntArray:
    """Number the combinations (y, ŷ): y·Y + ŷ."""
    return np.asarray(outputs.y.codes * len(outputs.y.values) + outputs.predicted, dtype=np.int64)


def labels_as_columns(outputs: Outputs) -> FloatArray:
    """Return y, ŷ and their frequent combinations, one column of zeros and ones per value."""
    size, cells = len(outputs.y.values), cells_of(outputs)
    frequent = np.flatnonzero(np.bincount(cells, minlength=size * size) >= _LEAST_IN_CELL)
    unit = np.eye(size)
    together = (cells[:, None] == frequent[None, :]).astype(np.float64)
    return np.hstack([unit[outputs.y.codes], unit[outputs.predicted], together])
