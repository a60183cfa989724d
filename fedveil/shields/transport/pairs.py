"""How often two columns' cells go together: counted once, and all that weights and guesses are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedveil.core.arrays import FloatArray, IntArray
from fedveil.shields.transport.columns import Column
from fedveil.shields.transport.counts import Counts


@dataclass(frozen=True, eq=False)
class Pairs:
    """Counts (values of u, cells of one column, cells of another) for every two columns.

    Attributes:
        columns: the columns, in the order by which `tables` names them.
        tables: by two places in that order, the first the larger.
    """

    columns: tuple[Column, ...]
    tables: dict[tuple[int, int], FloatArray]

    @classmethod
    def count(
        cls, columns: Sequence[Column], cells: Sequence[IntArray], u: IntArray, values: int, counts: Counts
    ) -> Pairs:
        """Count training people: one question for every two columns. What noise made negative counts as nothing."""
        tables = {}
        counts.asked(len(columns) * (len(columns) - 1) // 2)
        for one in range(len(columns)):
            for other in range(one):
                shape = (values, columns[one].cells, columns[other].cells)
                place = np.ravel_multi_index((u, cells[one], cells[other]), shape)
                seen = np.bincount(place, minlength=int(np.prod(shape))).reshape(shape)
                tables[one, other] = np.maximum(counts.noised(seen), 0.0)
        return cls(tuple(columns), tables)

    def between(self, one: int, other: int) -> FloatArray:
        """Return counts (cells of one, cells of another), whatever u."""
        table = self.tables[max(one, other), min(one, other)].sum(axis=0)
        return np.asarray(table if one > other else table.T, dtype=np.float64)

    def of(self, places: IntArray) -> Pairs:
        """Return the counts of some of the columns, in increasing order."""
        new = {int(place): number for number, place in enumerate(places)}
        kept = {(new[a], new[b]): table for (a, b), table in self.tables.items() if a in new and b in new}
        return Pairs(tuple(self.columns[place] for place in places), kept)

    def told(self) -> FloatArray:
        """Return I(x_j; x_k | u) in bits for every two columns: plug-in, less its mean under independence.

        That mean is degrees of freedom over 2n nats, as for the likelihood ratio's χ² (Wilks 1938).
        """
        found = np.zeros((len(self.columns), len(self.columns)))
        for (one, other), table in self.tables.items():
            found[one, other] = found[other, one] = max(0.0, _conditional_information(table))
        return found


def _conditional_information(table: FloatArray) -> float:
    """Return I(a; b | u) in bits of counts (u, a, b), less what independence would show by chance."""
    total = table.sum()
    if total <= 0:
        return 0.0

    def entropy(counts: FloatArray) -> float:
        share = counts[counts > 0] / total
        return float(-(share * np.log(share)).sum())

    found = entropy(table.sum(axis=2)) + entropy(table.sum(axis=1)) - entropy(table) - entropy(table.sum(axis=(1, 2)))
    held = [((table.sum(axis=axis) > 0).sum(axis=1) - 1).clip(0) for axis in (2, 1)]
    return float((found - (held[0] * held[1]).sum() / (2 * total)) / np.log(2))
