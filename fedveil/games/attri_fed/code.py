"""A code for rounded representations: frequency tables, joint where that saves bits, and an escape for the rest."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from fedveil.core.arrays import FloatArray, IntArray
from fedveil.core.errors import InputError

CODED, RAW, FAR = 0, 1, 2
"""How a record is sent: by the tables, as cells of equal length (for unlikely records), or verbatim."""

FAR_BITS = 32
MOST_CELLS = 4096
"""The most cells of one table, joint or not, and the most that a joint prior or rounding by rate enumerates."""

FARTHEST = (MOST_CELLS - 1) // 2
"""The largest reach: −reach … reach must fit a table."""

_MOST_AXES = 12
_TRUST = (1.0, 4.0, 16.0, 64.0, 256.0)
"""Candidates for a in `_joint`: how many records the factorised law counts for."""


@dataclass(frozen=True, eq=False)
class RateCode:
    """Tables of the numbers low_j … low_j + levels_j − 1 in each of d dimensions.

    A table has an axis for each of the consecutive dimensions that it covers. With one axis a number is coded by
    itself; with several axes numbers are coded jointly, which saves the bits that they share. A record
    whose numbers all lie inside the tables is sent by them, or, where that is shorter, as bare cell numbers: no such
    record costs more than `cap` bits. A record with a number outside is escaped: each of its numbers takes 32 bits.
    Lengths obey Kraft's inequality, so their mean is at least the entropy of what is sent.

    Attributes:
        low: the first number of every dimension.
        tables: probabilities of the numbers of each run of dimensions, each positive, summing to 1.
        raw_share, far_share: probabilities reserved for records that are sent as cell numbers, and verbatim.
        digest: identifies the code; part of every message.
    """

    low: IntArray
    tables: tuple[FloatArray, ...]
    raw_share: float = 2.0**-7
    far_share: float = 2.0**-14
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        low = np.ascontiguousarray(self.low, dtype=np.int64)
        tables = tuple(np.ascontiguousarray(table, dtype=np.float64) for table in self.tables)
        if not len(tables) or low.shape != (sum(table.ndim for table in tables),):
            raise InputError("rate code: needs a first number and a table for every dimension")
        for number, table in enumerate(tables):
            if not 1 <= table.size <= MOST_CELLS:
                raise InputError(f"rate code: table {number} must have 1 to {MOST_CELLS} cells")
            if not (np.isfinite(table).all() and (table > 0).all() and abs(table.sum() - 1) < 1e-6):
                raise InputError(f"rate code: table {number}: probabilities must be positive and sum to 1")
        if min(self.raw_share, self.far_share) <= 0 or self.raw_share + self.far_share >= 1:
            raise InputError("rate code: the shares of escapes must be positive and sum to less than 1")
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "tables", tables)
        parts = [low.tobytes(), np.array([self.raw_share, self.far_share]).tobytes()]
        parts += [np.array([table.ndim, *table.shape]).tobytes() + table.tobytes() for table in tables]
        object.__setattr__(self, "digest", hashlib.sha256(b"".join(parts)).hexdigest())

    @classmethod
    def fit(
        cls, values: npt.ArrayLike, *, low: int, high: int, smoothing: float = 0.5, most_cells: int = 1
    ) -> RateCode:
        """Return the code whose tables are the smoothed frequencies of rounded training representations (n, d).

        Args:
            values: whole numbers; those outside [low, high] are counted at the nearest end.
            low, high: the range of every dimension.
            smoothing: what is added to every count of a single dimension.
            most_cells: consecutive dimensions share a table of at most this many cells; with 1, each dimension has its
                own table.
        """
        whole = _whole(values)
        if high < low or smoothing <= 0:
            raise InputError("rate code: needs low ≤ high and a smoothing above 0")
        levels = np.clip(whole, low, high) - low
        counts = [np.bincount(column, minlength=high - low + 1) + smoothing for column in levels.T]
        single = [count / count.sum() for count in counts]
        axes = 1
        while axes < _MOST_AXES and (high - low + 1) ** (axes + 1) <= min(most_cells, MOST_CELLS):
            axes += 1
        starts = range(0, whole.shape[1], axes)
        tables = (_joint(levels[:, start : start + axes], single[start : start + axes]) for start in starts)
        return cls(np.full(whole.shape[1], low), tuple(tables))

    @classmethod
    def choose(cls, train: npt.ArrayLike, validation: npt.ArrayLike, *, low: int, high: int) -> RateCode:
        """Return the code, of single or joint tables, that takes the fewest bits on validation records.

        Codes fitted on training records are compared; the best form is then fitted on both.
        """
        codes = {cells: cls.fit(train, low=low, high=high, most_cells=cells) for cells in (1, 256, MOST_CELLS)}
        best = min(codes, key=lambda cells: float(codes[cells].bits(validation).mean()))
        return cls.fit(np.vstack([train, validation]), low=low, high=high, most_cells=best)

    @property
    def joint(self) -> bool:
        """Whether any numbers are coded jointly."""
        return any(table.ndim > 1 for table in self.tables)

    @property
    def width(self) -> int:
        """The number of dimensions, d."""
        return len(self.low)

    @property
    def runs(self) -> tuple[slice, ...]:
        """The dimensions that each table covers."""
        ends = np.cumsum([table.ndim for table in self.tables])
        return tuple(slice(int(end) - table.ndim, int(end)) for end, table in zip(ends, self.tables, strict=True))

    @property
    def raw_bits(self) -> float:
        """The bits of a record sent as bare cell numbers, without its flag."""
        return float(sum(math.log2(table.size) for table in self.tables))

    @property
    def cap(self) -> float:
        """The most bits that a record inside the tables can cost."""
        return self.raw_bits - math.log2(self.raw_share)

    def within(self, values: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """Whether all of a record's numbers lie inside the tables."""
        levels = _whole(values) - self.low
        sizes = np.array([size for table in self.tables for size in table.shape])
        return np.asarray(((levels >= 0) & (levels < sizes)).all(axis=1))

    def cells(self, values: npt.ArrayLike) -> tuple[IntArray, ...]:
        """Return every record's cell of each table; numbers outside are moved to the nearest end."""
        levels = _whole(values) - self.low
        return tuple(_cells(levels[:, run], table.shape) for run, table in zip(self.runs, self.tables, strict=True))

    def ways_and_bits(self, values: npt.ArrayLike) -> tuple[IntArray, FloatArray]:
        """Return how each record is sent, and its length in bits: −log₂ of the probability that the code gives it."""
        whole = _whole(values)
        if whole.shape[1] != self.width:
            raise InputError(f"rate code: made for {self.width} dimensions, records have {whole.shape[1]}")
        inside = self.within(whole)
        coded = np.full(len(whole), -math.log2(1 - self.raw_share - self.far_share))
        for cells, table in zip(self.cells(whole), self.tables, strict=True):
            coded -= np.log2(table.reshape(-1)[cells])
        ways = np.where(inside, np.where(coded <= self.cap, CODED, RAW), FAR)
        far = FAR_BITS * self.width - math.log2(self.far_share)
        return ways, np.where(inside, np.minimum(coded, self.cap), far)

    def bits(self, values: npt.ArrayLike) -> FloatArray:
        """Return each record's length in bits."""
        return self.ways_and_bits(values)[1]


def _cells(levels: IntArray, shape: tuple[int, ...]) -> IntArray:
    inside = tuple(np.clip(column, 0, size - 1) for column, size in zip(levels.T, shape, strict=True))
    return np.asarray(np.ravel_multi_index(inside, shape), dtype=np.int64)


def _joint(levels: IntArray, single: Sequence[FloatArray]) -> FloatArray:
    """Return (n(c) + a·Π_j q_j(c_j)) / (n + a) of the cells c: frequencies that fall back on the factorised law q.

    a maximises the records' likelihood when each is predicted from the table of the others.
    """
    if len(single) == 1:
        return single[0]
    factorised = single[0]
    for table in single[1:]:
        factorised = factorised[..., None] * table
    counts = np.bincount(_cells(levels, factorised.shape), minlength=factorised.size).reshape(factorised.shape)
    filled, total = counts > 0, len(levels)

    def log_likelihood_left_out(trust: float) -> float:
        others = counts[filled] - 1 + trust * factorised[filled]
        return float((counts[filled] * np.log(others / (total - 1 + trust))).sum())

    trust = max(_TRUST, key=log_likelihood_left_out)
    return np.asarray((counts + trust * factorised) / (total + trust))


def _whole(values: npt.ArrayLike) -> IntArray:
    """Return whole numbers (n, d); others are refused, never rounded silently."""
    array = np.asarray(values)
    if array.ndim != 2:
        raise InputError(f"rate code: representations must be (records, dimensions), got shape {array.shape}")
    if not np.issubdtype(array.dtype, np.integer):
        if not np.isfinite(array).all() or (array != np.round(array)).any():
            raise InputError("rate code: representations must be whole numbers; round them before they are sent")
        if (np.abs(array) >= 2.0**31).any():
            raise InputError("rate code: a number needs more than 32 bits; clamp representations before they are sent")
    whole = array.astype(np.int64)
    if (np.abs(whole) >= 2**31).any():
        raise InputError("rate code: a number needs more than 32 bits; clamp representations before they are sent")
    return whole
