"""Strata: people alike in columns that stay, with enough of every value of u in each to count by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedveil.core.arrays import IntArray
from fedveil.core.errors import InputError
from fedveil.shields.transport.columns import Column
from fedveil.shields.transport.counts import Counts

_GROUPS = 16
"""Coarse cells of a column, at most: what stays tells more of u beyond its strata the coarser they are."""
_MOST = 1_000_000
"""Combinations of coarse cells, at most."""


@dataclass(frozen=True, eq=False)
class Strata:
    """A stratum per combination of coarse cells; those with too few people of some value of u are joined.

    Attributes:
        coarse: for each column, the group of each of its cells.
        table: the stratum of every combination.
        count: how many strata there are.
    """

    coarse: tuple[IntArray, ...]
    table: IntArray
    count: int

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
    """Make strata of training people in which every value of u has at least `least`.

    Combinations with fewer join those that differ from them in the first column only; where these together are still
    too few, in the second as well; and so on. What is left at the end joins the largest stratum.
    """
    coarse = tuple(coarse_cells(column, groups) for column in columns)
    shape = tuple(int(groups.max()) + 1 for groups in coarse)
    size = int(np.prod(shape, dtype=np.int64))
    if size > _MOST:
        kept = ", ".join(column.names[0] for column in columns)
        raise InputError(f"transport: {kept} stay, which makes {size:,} strata, too many to count; keep fewer columns")
    where = _combined(coarse, cells, len(u))
    counts.asked()
    seen = counts.noised(np.bincount(where * values + u, minlength=size * values).reshape(size, values))
    table, count = np.full(size, -1, dtype=np.int64), 0
    for ignored in range(len(shape) + 1):
        wide = np.arange(size) % int(np.prod(shape[ignored:], dtype=np.int64))
        for group in np.unique(wide[table < 0]):
            members = (wide == group) & (table < 0)
            if seen[members].sum(axis=0).min() >= least:
                table[members], count = count, count + 1
    if count == 0:
        return Strata(coarse, np.zeros(size, dtype=np.int64), 1)
    people = [seen[table == stratum].sum() for stratum in range(count)]
    table[table < 0] = int(np.argmax(people))
    return Strata(coarse, table, count)


def coarse_cells(column: Column, groups: int) -> IntArray:
    """Return a group for each cell: at most so many, of about equal shares, in the cells' order."""
    middle = np.cumsum(column.shares) - column.shares / 2
    group = np.minimum((middle * groups).astype(np.int64), groups - 1)
    return np.unique(group, return_inverse=True)[1].astype(np.int64)


def _combined(coarse: Sequence[IntArray], cells: Sequence[IntArray], people: int) -> IntArray:
    where = np.zeros(people, dtype=np.int64)
    for groups, own in zip(coarse, cells, strict=True):
        where = where * (int(groups.max()) + 1) + groups[own]
    return where
