"""What columns have in common: few directions in which people differ in many columns at once. No label is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from fedveil.core.arrays import FloatArray, IntArray
from fedveil.shields.transport.columns import Column
from fedveil.shields.transport.counts import Counts
from fedveil.shields.transport.guess import Guess
from fedveil.shields.transport.pairs import Pairs


@dataclass(frozen=True, eq=False)
class Common:
    """The leading directions of (x, φ(x)), with a given variance each, u's own means apart; then guesses at what stays.

    Symbols: φ_j(x) what the rest of a record makes of column j: the mean coordinates of its cells under a guess from
    all other columns. A task that nobody has named is likely to be one more such column; what many columns foretell
    of each other, it needs too. So distances in these directions count when people are moved. Columns that stay are
    those that matter most: what the rest of a record makes of them may count by itself.

    Attributes:
        columns, guesses: the columns that take part, and the guess at each from the others.
        seen: which of them enter by their own cells, too; columns that are shown anyway need not.
        rotation: from all these coordinates to the directions.
        bound: the largest norm of a person's place in them.
    """

    columns: tuple[Column, ...]
    guesses: tuple[Guess, ...]
    seen: tuple[bool, ...]
    rotation: FloatArray
    bound: float

    def of(self, cells: Sequence[IntArray], people: int) -> FloatArray:
        """Return people's places from the cells of the columns."""
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
    """Learn the directions of two columns or more from counts of pairs, and one sum of bounded products over people.

    Args:
        cells: people's cells of the pairs' columns.
        seen: which of these columns enter by their own cells.
        directions: how many; fewer where coordinates are fewer.
        weights: the variance of each direction, and of the guess at each column that does not enter itself.
    """
    columns, people = pairs.columns, len(u)
    guesses = []
    for place in range(len(columns)):
        tables = [pairs.between(place, other) for other in range(len(columns)) if other != place]
        guesses.append(Guess.learn(tables[0].sum(axis=1), tables))
    z = _coordinates(columns, guesses, seen, cells, people)
    largest = [float((column.places**2).sum(axis=1).max()) for column in columns]
    bound = (1.0 + sum(largest) + sum(one for one, own in zip(largest, seen, strict=True) if own)) ** 0.5
    counts.asked()
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
    """Return a factor for every coordinate by which each column's own part, and its guess, has variance 1."""
    widths = [column.places.shape[1] for column, own in zip(columns, seen, strict=True) if own]
    widths += [column.places.shape[1] for column in columns]
    edges = np.cumsum([0, *widths])
    diagonal = np.maximum(np.diag(covariance), 0.0)
    variances = [float(diagonal[start:end].sum()) for start, end in pairwise(edges)]
    each = [variance**-0.5 if variance > 1e-6 else 0.0 for variance in variances]
    return np.repeat(each, widths)


def _guessed(columns: Sequence[Column], seen: Sequence[bool]) -> IntArray:
    """Return which coordinates are guesses at columns that do not enter themselves."""
    start = sum(column.places.shape[1] for column, own in zip(columns, seen, strict=True) if own)
    places: list[int] = []
    for column, own in zip(columns, seen, strict=True):
        width = column.places.shape[1]
        places += [] if own else range(start, start + width)
        start += width
    return np.array(places, dtype=np.int64)


def _coordinates(
    columns: Sequence[Column],
    guesses: Sequence[Guess],
    seen: Sequence[bool],
    cells: Sequence[IntArray],
    people: int,
) -> FloatArray:
    """Return people's own places in the seen columns, then what is guessed of every column."""
    parts = [column.places[own] for column, own, wanted in zip(columns, cells, seen, strict=True) if wanted]
    for place, (column, guess) in enumerate(zip(columns, guesses, strict=True)):
        others = [*cells[:place], *cells[place + 1 :]]
        parts.append(np.exp(guess.log_chances(others, people)) @ column.places)
    return np.hstack(parts) if parts else np.zeros((people, 0))
