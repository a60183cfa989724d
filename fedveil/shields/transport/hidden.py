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
class HiddenValues:
    """Combinations of the hidden attributes' values that occur among training people, numbered.

    Attributes:
        names: the hidden attributes.
        sizes: how many values each has.
        table: the number of every combination, −1 for those that nobody had.
        count: how many combinations occur.
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    table: IntArray
    count: int

    @classmethod
    def learn(cls, hidden: Sequence[Attribute]) -> HiddenValues:
        """Number the combinations of training people, whose attributes are all known."""
        sizes = tuple(len(attribute.values) for attribute in hidden)
        occurring = np.unique(np.ravel_multi_index([attribute.codes for attribute in hidden], sizes))
        table = np.full(int(np.prod(sizes)), -1, dtype=np.int64)
        table[occurring] = np.arange(len(occurring))
        return cls(tuple(attribute.name for attribute in hidden), sizes, table, len(occurring))

    def of(self, codes: Sequence[IntArray]) -> IntArray:
        """Return the number of each record's combination; a record without one is refused."""
        if any((column < 0).any() or (column >= size).any() for column, size in zip(codes, self.sizes, strict=True)):
            raise InputError(f"transport: a record has no {' or '.join(self.names)}, so it cannot be shown")
        values = self.table[np.ravel_multi_index(tuple(codes), self.sizes)]
        if (values < 0).any():
            raise InputError(f"transport: a record has a {' × '.join(self.names)} that no training record had")
        return np.asarray(values, dtype=np.int64)

    def sums_of(self, name: str, sums: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return sums (codes, combinations) as sums (codes, values of one attribute that training people had)."""
        combinations = np.flatnonzero(self.table >= 0)
        codes = np.unravel_index(combinations, self.sizes)[self.names.index(name)]
        return np.stack([sums[:, codes == value].sum(axis=1) for value in np.unique(codes)], axis=1)
