"""The value that is hidden: one attribute's, or a combination of several attributes' values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedveil.core.arrays import IntArray
from fedveil.core.errors import InputError
from fedveil.data.attribute import Attribute


@dataclass(frozen=True, eq=False)
class Joint:
    """Combinations of the hidden attributes' values that training people had, numbered.

    Attributes:
        names: the hidden attributes.
        sizes: how many values each has.
        table: the number of every combination, −1 for those that nobody had.
        count: how many there are.
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    table: IntArray
    count: int

    @classmethod
    def learn(cls, hidden: Sequence[Attribute]) -> Joint:
        """Number the combinations of training people, who all carry the attributes."""
        sizes = tuple(len(one.values) for one in hidden)
        seen = np.unique(np.ravel_multi_index([one.codes for one in hidden], sizes))
        table = np.full(int(np.prod(sizes)), -1, dtype=np.int64)
        table[seen] = np.arange(len(seen))
        return cls(tuple(one.name for one in hidden), sizes, table, len(seen))

    def of(self, codes: Sequence[IntArray]) -> IntArray:
        """Return each record's number; a record without one is refused."""
        if any((own < 0).any() or (own >= size).any() for own, size in zip(codes, self.sizes, strict=True)):
            raise InputError(f"transport: a record carries no {' or '.join(self.names)}, so it cannot be shown")
        values = self.table[np.ravel_multi_index(tuple(codes), self.sizes)]
        if (values < 0).any():
            raise InputError(f"transport: a record has a {' × '.join(self.names)} that no training record had")
        return np.asarray(values, dtype=np.int64)

    def sums_of(self, name: str, sums: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return sums (codes, combinations) as sums (codes, values of one attribute that training people had)."""
        combinations = np.flatnonzero(self.table >= 0)
        own = np.unravel_index(combinations, self.sizes)[self.names.index(name)]
        return np.stack([sums[:, own == value].sum(axis=1) for value in np.unique(own)], axis=1)
