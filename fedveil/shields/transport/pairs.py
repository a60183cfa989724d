"""What a table's columns reveal about each other, from counts of pairs of cells; no label is read.

Every two columns are counted once (`Pairs`). From these counts follow how much each column weighs when people are moved
(`importance`), what the rest of a record predicts about one column (`Guess`), and the few directions in which people
differ in many columns at once (`Common`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from fedveil.core.arrays import BoolArray, FloatArray, IntArray
from fedveil.shields.transport.columns import Column
from fedveil.shields.transport.counts import Counts

_ALOOF = 0.1
"""A column is left out if the other columns together reveal less than this share of its entropy."""


@dataclass(frozen=True, eq=False)
class Pairs:
    """Counts (values of u, cells of one column, cells of another) for every two columns.

    Attributes:
        columns: the columns, in the order that `tables` refers to.
        tables: the counts by two indices into `columns`, the larger first.
    """

    columns: tuple[Column, ...]
    tables: dict[tuple[int, int], FloatArray]

    @classmethod
    def count(
        cls, columns: Sequence[Column], cells: Sequence[IntArray], u: IntArray, values: int, counts: Counts
    ) -> Pairs:
        """Count training people: one question for every two columns. Negative noisy counts become 0."""
        tables = {}
        counts.record(len(columns) * (len(columns) - 1) // 2)
        for first in range(len(columns)):
            for second in range(first):
                shape = (values, columns[first].cells, columns[second].cells)
                entry = np.ravel_multi_index((u, cells[first], cells[second]), shape)
                table = np.bincount(entry, minlength=int(np.prod(shape))).reshape(shape)
                tables[first, second] = np.maximum(counts.noised(table), 0.0)
        return cls(tuple(columns), tables)

    def between(self, first: int, second: int) -> FloatArray:
        """Return counts (cells of the first column, cells of the second), summed over u."""
        table = self.tables[max(first, second), min(first, second)].sum(axis=0)
        return np.asarray(table if first > second else table.T, dtype=np.float64)

    def of(self, indices: IntArray) -> Pairs:
        """Return the counts of some of the columns, whose indices increase."""
        new = {int(index): number for number, index in enumerate(indices)}
        tables = {(new[a], new[b]): table for (a, b), table in self.tables.items() if a in new and b in new}
        return Pairs(tuple(self.columns[index] for index in indices), tables)

    def information(self) -> FloatArray:
        """Return I(x_j; x_k | u) in bits for every two columns: the plug-in estimate minus its mean under independence.

        That mean is degrees of freedom over 2n nats, as for the likelihood ratio's χ² (Wilks 1938).
        """
        bits = np.zeros((len(self.columns), len(self.columns)))
        for (first, second), table in self.tables.items():
            bits[first, second] = bits[second, first] = max(0.0, _conditional_information(table))
        return bits


def _conditional_information(table: FloatArray) -> float:
    """Return I(a; b | u) in bits of counts (u, a, b), minus what independence would show by chance."""
    total = table.sum()
    if total <= 0:
        return 0.0

    def entropy(counts: FloatArray) -> float:
        share = counts[counts > 0] / total
        return float(-(share * np.log(share)).sum())

    plug_in = entropy(table.sum(axis=2)) + entropy(table.sum(axis=1)) - entropy(table) - entropy(table.sum(axis=(1, 2)))
    occupied = [((table.sum(axis=axis) > 0).sum(axis=1) - 1).clip(0) for axis in (2, 1)]
    return float((plug_in - (occupied[0] * occupied[1]).sum() / (2 * total)) / np.log(2))


def importance(pairs: Pairs) -> FloatArray:
    """Return each column's weight, min(1, 2·c / max c)² · H/2, with c = Σ_k I(x_j; x_k | u) and H its entropy in bits.

    A column that is related to many others has weight; among these, one with a higher entropy has more. A column that
    reveals next to nothing about any other, such as a survey's weights, has weight 0: whatever a task may need from it,
    the rest of the record is unlikely to share.
    """
    shared = pairs.information().sum(axis=1)
    entropies = np.array([column.entropy for column in pairs.columns])
    most = float(shared.max(initial=0.0))
    if most <= 0:
        return np.ones(len(entropies))
    return np.where(aloof(pairs), 0.0, np.minimum(1.0, 2 * shared / most) ** 2 * entropies / 2)


def aloof(pairs: Pairs) -> BoolArray:
    """Return which columns share next to nothing with the others."""
    entropies = np.array([column.entropy for column in pairs.columns])
    return np.asarray(pairs.information().sum(axis=1) < _ALOOF * entropies)


@dataclass(frozen=True, eq=False)
class Guess:
    """A naive Bayes guess at one column from the others: p(k | cells) ∝ exp(prior[k] + Σ_o logs[o][k, cell of o]).

    Attributes:
        prior: logarithms of the column's counts.
        logs: for each other column, log p(its cell | k), smoothed towards the cell's share by half a person each.
    """

    prior: FloatArray
    logs: tuple[FloatArray, ...]

    @classmethod
    def learn(cls, counts: FloatArray, pairs: Sequence[FloatArray]) -> Guess:
        """Learn from counts of the column's cells, and of its cells with those of each other column."""
        logs = []
        for table in pairs:
            size = table.shape[1]
            smooth = table + 0.5 * size * (table.sum(axis=0) + 1e-3) / (table.sum() + 1e-3 * size)
            logs.append(np.log(smooth / smooth.sum(axis=1, keepdims=True)))
        return cls(np.log(np.maximum(counts, 0.0) + 1.0), tuple(logs))

    def log_chances(self, others: Sequence[IntArray], people: int) -> FloatArray:
        """Return log p of each cell for some people; a cell that no training person had contributes nothing."""
        score = np.tile(self.prior, (people, 1))
        for log, other in zip(self.logs, others, strict=True):
            score += np.where((other < log.shape[1])[:, None], log[:, np.minimum(other, log.shape[1] - 1)].T, 0.0)
        score -= np.logaddexp.reduce(score, axis=1, keepdims=True)
        return score


@dataclass(frozen=True, eq=False)
class Common:
    """The leading directions of (x, φ(x)) within values of u, each with a given variance; then guesses at kept columns.

    Symbols: φ_j(x), what the rest of a record predicts about column j: the mean coordinates of its cells under a
    `Guess` from all other columns. A task that nobody has named yet is likely to behave like one more such column, so
    it needs what many columns predict about each other. Distances in these directions therefore count when people are
    moved. Kept columns are those that matter most, so what the rest of a record predicts about them may count
    separately.

    Attributes:
        columns, guesses: the columns that are used, and the guess at each from the others.
        seen: which of them also contribute their own cells; columns that are shown anyway need not.
        rotation: the map from all these coordinates to the directions.
        bound: the largest norm of a person's coordinates in these directions.
    """

    columns: tuple[Column, ...]
    guesses: tuple[Guess, ...]
    seen: tuple[bool, ...]
    rotation: FloatArray
    bound: float

    def of(self, cells: Sequence[IntArray], people: int) -> FloatArray:
        """Return people's coordinates from the cells of the columns."""
        return np.asarray(_coordinates(self.columns, self.guesses, self.seen, cells, people) @ self.rotation)


def learn_common(
    pairs: Pairs,
    cells: Sequence[IntArray],
    seen: Sequence[bool],
    u: IntArray,
    values: int,
    directions: int,
    weights: tuple[float, float],
    counts: Counts,
) -> Common:
    """Learn the directions of at least two columns from counts of pairs, and one sum of bounded products over people.

    Args:
        cells: people's cells of the pairs' columns.
        seen: which of these columns contribute their own cells.
        directions: how many directions; fewer if there are fewer coordinates.
        weights: the variance of each direction, and of the guess at each column that does not contribute its own cells.
    """
    columns, people = pairs.columns, len(u)
    guesses = []
    for index in range(len(columns)):
        tables = [pairs.between(index, other) for other in range(len(columns)) if other != index]
        guesses.append(Guess.learn(tables[0].sum(axis=1), tables))
    z = _coordinates(columns, guesses, seen, cells, people)
    largest = [float((column.coordinates**2).sum(axis=1).max()) for column in columns]
    bound = (1.0 + sum(largest) + sum(size for size, enters in zip(largest, seen, strict=True) if enters)) ** 0.5
    counts.record()
    covariance, everybody = np.zeros((z.shape[1], z.shape[1])), 0.0
    for value in range(values):  # values of u are disjoint groups: one question
        with_one = np.hstack([z[u == value], np.ones((int((u == value).sum()), 1))]) / bound
        moments = counts.noised(with_one.T @ with_one) * bound**2
        mass = max(float(moments[-1, -1]), 1.0)
        mean = moments[-1, :-1] / mass
        everybody += mass
        covariance += (moments[:-1, :-1] + moments[:-1, :-1].T) / 2 - mass * np.outer(mean, mean)
    covariance /= everybody
    scale = _scales(covariance, columns, seen)
    spread, vectors = np.linalg.eigh(covariance * np.outer(scale, scale))
    chosen = np.argsort(-spread, kind="stable")[: min(directions, int((spread > 1e-9).sum()))]
    vectors = vectors[:, chosen]
    vectors *= np.where(vectors[np.abs(vectors).argmax(axis=0), np.arange(len(chosen))] < 0, -1.0, 1.0)
    rotation = scale[:, None] * vectors * np.sqrt(weights[0] / np.maximum(spread[chosen], 1e-9))
    if weights[1] > 0:
        rotation = np.hstack([rotation, np.diag(scale * np.sqrt(weights[1]))[:, _guessed(columns, seen)]])
    norm = float(np.linalg.norm(rotation, 2)) if rotation.size else 0.0
    return Common(tuple(columns), tuple(guesses), tuple(seen), rotation, norm * bound)


def _scales(covariance: FloatArray, columns: Sequence[Column], seen: Sequence[bool]) -> FloatArray:
    """Return a factor for every coordinate that gives each column, and each guess at a column, variance 1."""
    widths = [column.coordinates.shape[1] for column, enters in zip(columns, seen, strict=True) if enters]
    widths += [column.coordinates.shape[1] for column in columns]
    edges = np.cumsum([0, *widths])
    diagonal = np.maximum(np.diag(covariance), 0.0)
    variances = [float(diagonal[start:end].sum()) for start, end in pairwise(edges)]
    each = [variance**-0.5 if variance > 1e-6 else 0.0 for variance in variances]
    return np.repeat(each, widths)


def _guessed(columns: Sequence[Column], seen: Sequence[bool]) -> IntArray:
    """Return the indices of coordinates that are guesses at columns which do not contribute their own cells."""
    start = sum(column.coordinates.shape[1] for column, enters in zip(columns, seen, strict=True) if enters)
    indices: list[int] = []
    for column, enters in zip(columns, seen, strict=True):
        width = column.coordinates.shape[1]
        indices += [] if enters else range(start, start + width)
        start += width
    return np.array(indices, dtype=np.int64)


def _coordinates(
    columns: Sequence[Column],
    guesses: Sequence[Guess],
    seen: Sequence[bool],
    cells: Sequence[IntArray],
    people: int,
) -> FloatArray:
    """Return people's coordinates in the seen columns, then what is guessed of every column."""
    parts = [column.coordinates[cell] for column, cell, enters in zip(columns, cells, seen, strict=True) if enters]
    for index, (column, guess) in enumerate(zip(columns, guesses, strict=True)):
        others = [*cells[:index], *cells[index + 1 :]]
        parts.append(np.exp(guess.log_chances(others, people)) @ column.coordinates)
    return np.hstack(parts) if parts else np.zeros((people, 0))
