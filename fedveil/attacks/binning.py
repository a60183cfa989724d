"""Columns as ranks among quantiles, for attackers made of trees, which use nothing but order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedveil.attacks.attack import Labelled
from fedveil.core.arrays import FloatArray, FloatingArray, IntArray

Codes = npt.NDArray[np.uint8]

_ROWS_FOR_EDGES = 50_000
"""Quantiles are estimated from this many vectors: more would not move them by a tenth of a bin."""

_COLUMNS_AT_ONCE = 256
_COARSE = 8


@dataclass(frozen=True, eq=False)
class Binning:
    """For every column that is kept, the edges between its bins.

    Attributes:
        columns: positions of the kept columns, ascending.
        edges: for each of them, ascending values; a value's bin is the number of edges below it.
    """

    columns: IntArray
    edges: tuple[FloatingArray, ...]

    @classmethod
    def fit(cls, vectors: FloatingArray, bins: int) -> Binning:
        """Return bins of equal frequency; a column with at most `bins` values has a bin for each."""
        step = -(-len(vectors) // _ROWS_FOR_EDGES)
        edges: list[FloatingArray] = []
        for start in range(0, vectors.shape[1], _COLUMNS_AT_ONCE):
            block = np.sort(np.ascontiguousarray(vectors[::step, start : start + _COLUMNS_AT_ONCE].T), axis=1)
            edges += [_edges(column, bins) for column in block]
        return cls(np.arange(vectors.shape[1]), tuple(edges))

    def apply(self, vectors: FloatingArray) -> Codes:
        """Return the bins of the kept columns, (n, kept)."""
        codes = np.empty((len(self.columns), len(vectors)), dtype=np.uint8)
        for row, column, edges in zip(codes, self.columns, self.edges, strict=True):
            row[:] = np.searchsorted(edges, vectors[:, column])
        return codes.T

    def only(self, positions: IntArray) -> Binning:
        """Keep some of the columns."""
        return Binning(self.columns[positions], tuple(self.edges[position] for position in positions))


def most_telling(codes: Codes, labels: IntArray, classes: int, most: int) -> IntArray:
    """Return the columns that depend most on the labels, at most `most`, in ascending order.

    A column is rated by the χ² statistic of its table of bins and labels, in units of its standard deviation under
    independence, with coarse bins (for shifts) or fine ones (for arbitrary codes), whichever is larger.
    """
    ratings = [max(_rating(column, labels, classes), _rating(_coarse(column), labels, classes)) for column in codes.T]
    # stable, so that equal ratings are resolved by position
    return np.sort(np.argsort(-np.asarray(ratings), kind="stable")[:most])


def binned(data: Labelled, classes: int, bins: int, most_columns: int) -> tuple[Binning, Codes]:
    """Fit bins, keep the most telling columns, and return the data's bins."""
    binning = Binning.fit(data.vectors, bins)
    codes = binning.apply(data.vectors)
    if codes.shape[1] <= most_columns:
        return binning, codes
    kept = most_telling(codes, data.codes, classes, most_columns)
    return binning.only(kept), codes[:, kept]


def screening_note(kept: int, columns: int) -> str:
    """Say that only some columns were used."""
    return f"used the {kept:,} of {columns:,} columns that depend most on the attribute one by one"


def _edges(ascending: FloatingArray, bins: int) -> FloatingArray:
    """Return the edges of one column, from its values in ascending order."""
    values = ascending[np.r_[True, ascending[1:] > ascending[:-1]]]
    if len(values) <= bins:
        return values[:-1]
    positions = (np.arange(1, bins) * len(ascending)) // bins
    return np.unique(ascending[positions])


def _coarse(column: Codes) -> Codes:
    return (column.astype(np.int64) * _COARSE // (int(column.max()) + 1)).astype(np.uint8)


def _rating(column: Codes, labels: IntArray, classes: int) -> float:
    table = np.bincount(column.astype(np.int64) * classes + labels, minlength=256 * classes)
    counts = table.reshape(256, classes).astype(np.float64)
    counts = counts[counts.sum(axis=1) > 0]
    expected: FloatArray = counts.sum(axis=1, keepdims=True) * counts.sum(axis=0) / len(labels)
    freedom = (len(counts) - 1) * (classes - 1)
    if not freedom:
        return -np.inf
    statistic = float(((counts - expected) ** 2 / np.maximum(expected, 1e-12)).sum())
    return (statistic - freedom) / float(np.sqrt(2 * freedom))
