"""A table's columns as finitely many cells, and strata of people who are alike in some columns.

Both are learned from training people. Transport moves people between cells, and does so separately in each stratum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from fedveil.core.arrays import FloatArray, IntArray
from fedveil.core.errors import InputError
from fedveil.shields.transport.counts import Counts

_MOST_CELLS = 16
"""A number with at most this many values has one cell for each; other numbers are cut at quantiles."""
_ATOM = 0.2
"""A value that more than this share of people have gets its own cell."""
_PEOPLE = 400
"""Each further quantile cell needs this many training people."""
_DONORS = 256
"""How many training people's values are stored for each cell."""
_GROUPS = 16
"""The most coarse cells of a column. The coarser they are, the more a kept column reveals about u beyond its strata."""
_MOST_COMBINATIONS = 1_000_000
"""The most combinations of coarse cells."""


@dataclass(frozen=True, eq=False)
class Column:
    """One column, or several that carry the same information (such as education and education-num).

    Attributes:
        names: the table's names for it.
        features: the indices of its features in x.
        key: the features from which its cell is read.
        edges: inner edges of a number's cells; None for a category, whose cell is the index of its one-hot feature.
        usual: the cell assigned to a category that no training person had.
        shares: the cells' shares of training people.
        coordinates: the cells' coordinates for costs, with total variance 1 over training people.
        donors: (cells, 256, features): values of training people in each cell, for those who are moved there.
    """

    names: tuple[str, ...]
    features: IntArray
    key: IntArray
    edges: FloatArray | None
    usual: int
    shares: FloatArray
    coordinates: FloatArray
    donors: FloatArray

    @property
    def cells(self) -> int:
        """The number of cells."""
        return len(self.shares)

    @property
    def entropy(self) -> float:
        """The entropy of the cells, in bits."""
        share = self.shares[self.shares > 0]
        return float(-(share * np.log2(share)).sum())

    def cell(self, x: npt.NDArray[np.floating]) -> IntArray:
        """Return each record's cell."""
        return _cell(x[:, self.key], self.edges, self.usual)


def learn_columns(x: npt.NDArray[np.floating], names: Sequence[str], rng: np.random.Generator) -> list[Column]:
    """Learn every column's cells.

    Columns that carry the same information become one; if one of them is a number, its order is kept.
    """
    owner = np.asarray(names)
    columns: list[Column] = []
    for name in dict.fromkeys(names):
        key = np.flatnonzero(owner == name)
        edges = _edges(x[:, key])
        cells = _cell(x[:, key], edges, 0)
        same = next((index for index, other in enumerate(columns) if _same(other.cell(x), cells)), None)
        if same is None:
            columns.append(_column((name,), x, key, key, edges, rng))
        else:
            first = columns[same]
            features, all_names = np.concatenate([first.features, key]), (*first.names, name)
            if first.edges is not None:
                key, edges = first.key, first.edges
            columns[same] = _column(all_names, x, features, key, edges, rng)
    return columns


def _column(
    names: tuple[str, ...],
    x: npt.NDArray[np.floating],
    features: IntArray,
    key: IntArray,
    edges: FloatArray | None,
    rng: np.random.Generator,
) -> Column:
    cells = _cell(x[:, key], edges, 0)
    counts = np.bincount(cells, minlength=len(key) if edges is None else len(edges) + 1 + (len(key) > 1))
    shares = counts / counts.sum()
    donors = np.zeros((len(counts), _DONORS, len(features)))
    for cell in range(len(counts)):
        pool = np.flatnonzero(cells == cell)
        if len(pool):
            donors[cell] = x[rng.choice(pool, _DONORS)][:, features]
    coordinates = _coordinates(shares, edges is None)
    return Column(names, features, key, edges, int(counts.argmax()), shares, coordinates, donors)


def _edges(values: npt.NDArray[np.floating]) -> FloatArray | None:
    """Return a number's inner edges, or None for one-hot features."""
    if values.shape[1] > 1 and np.isin(values, (0.0, 1.0)).all():
        return None
    number = values[:, 0]
    distinct, counts = np.unique(number, return_counts=True)
    between = (distinct[1:] + distinct[:-1]) / 2
    if len(distinct) <= _MOST_CELLS:
        return np.asarray(between, dtype=np.float64)
    atoms = np.flatnonzero(counts > _ATOM * len(number))
    rest = number[~np.isin(number, distinct[atoms])]
    wanted = int(np.clip(len(rest) // _PEOPLE, 2, _MOST_CELLS))
    cuts = np.quantile(rest, np.linspace(0, 1, wanted + 1)[1:-1])
    around = [between[index] for atom in atoms for index in (atom - 1, atom) if 0 <= index < len(between)]
    # A cut falls between two values that occur, so that no value lies on an edge.
    indices = np.clip(np.searchsorted(distinct, cuts), 1, len(distinct) - 1) - 1
    return np.unique(np.concatenate([around, between[indices]])).astype(np.float64)


def _cell(values: npt.NDArray[np.floating], edges: FloatArray | None, usual: int) -> IntArray:
    if edges is None:
        return np.where(values.any(axis=1), values.argmax(axis=1), usual).astype(np.int64)
    cells = np.searchsorted(edges, values[:, 0])
    if values.shape[1] > 1:  # flags after a number, such as "missing"
        cells = np.where((values[:, 1:] != 0).any(axis=1), len(edges) + 1, cells)
    return np.asarray(cells, dtype=np.int64)


def _same(first: IntArray, second: IntArray) -> bool:
    """Whether two columns divide people in the same way, and into more than two groups."""
    kinds = len(np.unique(first))
    pairs = len(np.unique(first * (int(second.max(initial=0)) + 1) + second))
    return kinds > 2 and pairs == kinds == len(np.unique(second))


def _coordinates(shares: FloatArray, category: bool) -> FloatArray:
    """Return one-hot coordinates of categories and normal scores of numbers, centred, with total variance 1."""
    middle = np.cumsum(shares) - shares / 2
    raw = np.eye(len(shares)) if category else ndtri(np.clip(middle, 1e-4, 1 - 1e-4))[:, None]
    centred = raw - shares @ raw
    variance = float(shares @ (centred**2).sum(axis=1))
    return np.asarray(centred / np.sqrt(variance) if variance > 0 else 0 * centred, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Strata:
    """A stratum for each combination of coarse cells; those with too few people of some value of u are joined.

    Attributes:
        coarse: for each column, the group of each of its cells.
        table: the stratum of every combination.
        count: the number of strata.
    """

    coarse: tuple[IntArray, ...]
    table: IntArray
    count: int

    @classmethod
    def single(cls) -> Strata:
        """Return the one stratum that everybody is in if no column stays."""
        return cls((), np.zeros(1, dtype=np.int64), 1)

    def of(self, cells: Sequence[IntArray], people: int) -> IntArray:
        """Return each person's stratum from the cells of the columns."""
        return np.asarray(self.table[_combined(self.coarse, cells, people)], dtype=np.int64)


def learn_strata(
    columns: Sequence[Column],
    cells: Sequence[IntArray],
    u: IntArray,
    values: int,
    least: int,
    counts: Counts,
    groups: int = _GROUPS,
) -> Strata:
    """Divide training people into strata in which every value of u has at least `least` people.

    Combinations with fewer people join those that differ from them in the first column only; if these together still
    have too few, they also join those that differ in the second column, and so on. Whatever remains joins the
    largest stratum.
    """
    coarse = tuple(coarse_cells(column, groups) for column in columns)
    shape = tuple(int(group.max()) + 1 for group in coarse)
    size = int(np.prod(shape, dtype=np.int64))
    if size > _MOST_COMBINATIONS:
        names = ", ".join(column.names[0] for column in columns)
        raise InputError(f"transport: keeping {names} makes {size:,} strata, too many to count; keep fewer columns")
    combination = _combined(coarse, cells, len(u))
    counts.record()
    people_counts = counts.noised(np.bincount(combination * values + u, minlength=size * values).reshape(size, values))
    table, count = np.full(size, -1, dtype=np.int64), 0
    for ignored in range(len(shape) + 1):
        wide = np.arange(size) % int(np.prod(shape[ignored:], dtype=np.int64))
        for group in np.unique(wide[table < 0]):
            members = (wide == group) & (table < 0)
            if people_counts[members].sum(axis=0).min() >= least:
                table[members], count = count, count + 1
    if count == 0:
        return Strata(coarse, np.zeros(size, dtype=np.int64), 1)
    people = [people_counts[table == stratum].sum() for stratum in range(count)]
    table[table < 0] = int(np.argmax(people))
    return Strata(coarse, table, count)


def coarse_cells(column: Column, groups: int) -> IntArray:
    """Return a group for each cell: at most `groups` of them, of about equal shares, in the cells' order."""
    middle = np.cumsum(column.shares) - column.shares / 2
    group = np.minimum((middle * groups).astype(np.int64), groups - 1)
    return np.unique(group, return_inverse=True)[1].astype(np.int64)


def _combined(coarse: Sequence[IntArray], cells: Sequence[IntArray], people: int) -> IntArray:
    combination = np.zeros(people, dtype=np.int64)
    for groups, column_cells in zip(coarse, cells, strict=True):
        combination = combination * (int(groups.max()) + 1) + groups[column_cells]
    return combination
