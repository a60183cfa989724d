"""A code for rounded representations: a frequency table per dimension, and an escape for whatever lies outside."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from fedveil.errors import InputError

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

CODED, RAW, FAR = 0, 1, 2
"""How a record is sent: by the tables, as places in them (for records that the tables find unlikely), or verbatim."""

FAR_BITS = 32
MOST_LEVELS = 4096


@dataclass(frozen=True, eq=False)
class RateCode:
    """Tables of the numbers low_j … low_j + levels_j − 1 in each of d dimensions.

    A record whose numbers all lie within is sent by the tables, or, where that is shorter, as bare places in them: no
    such record costs more than `cap` bits. One with a number outside is escaped: each number takes 32 bits. Lengths
    obey Kraft's inequality, so their mean is at least the entropy of what is sent.

    Attributes:
        low: the first number of every dimension.
        tables: probabilities of the numbers of each dimension, each positive, summing to 1.
        raw_share, far_share: probabilities kept for records that are sent as places, and verbatim.
    """

    low: IntArray
    tables: tuple[FloatArray, ...]
    raw_share: float = 2.0**-7
    far_share: float = 2.0**-14
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        low = np.ascontiguousarray(self.low, dtype=np.int64)
        tables = tuple(np.ascontiguousarray(table, dtype=np.float64) for table in self.tables)
        if not len(tables) or low.shape != (len(tables),):
            raise InputError("rate code: needs a first number and a table for every dimension")
        for place, table in enumerate(tables):
            if table.ndim != 1 or not 1 <= len(table) <= MOST_LEVELS:
                raise InputError(f"rate code: dimension {place} must have 1 to {MOST_LEVELS} numbers")
            if not (np.isfinite(table).all() and (table > 0).all() and abs(table.sum() - 1) < 1e-6):
                raise InputError(f"rate code: dimension {place}: probabilities must be positive and sum to 1")
        if min(self.raw_share, self.far_share) <= 0 or self.raw_share + self.far_share >= 1:
            raise InputError("rate code: the shares of escapes must be positive and below 1 together")
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "tables", tables)
        parts = [low.tobytes(), np.array([self.raw_share, self.far_share]).tobytes()]
        parts += [np.int64(len(table)).tobytes() + table.tobytes() for table in tables]
        object.__setattr__(self, "digest", hashlib.sha256(b"".join(parts)).hexdigest())

    @classmethod
    def fit(cls, values: npt.ArrayLike, *, low: int, high: int, smoothing: float = 0.5) -> RateCode:
        """Return the code whose tables are the smoothed frequencies of rounded training representations (n, d).

        Args:
            values: whole numbers; those outside of [low, high] count for the nearest end.
            low, high: the range of every dimension's table.
            smoothing: what is added to every count.
        """
        whole = _whole(values)
        if high < low or smoothing <= 0:
            raise InputError("rate code: needs low ≤ high and a smoothing above 0")
        places = np.clip(whole, low, high) - low
        counts = [np.bincount(column, minlength=high - low + 1) + smoothing for column in places.T]
        return cls(np.full(whole.shape[1], low), tuple(count / count.sum() for count in counts))

    @property
    def width(self) -> int:
        """d."""
        return len(self.tables)

    @property
    def raw_bits(self) -> float:
        """What a record sent as bare places takes, its flag left out."""
        return float(sum(math.log2(len(table)) for table in self.tables))

    @property
    def cap(self) -> float:
        """The most bits that a record within the tables costs."""
        return self.raw_bits - math.log2(self.raw_share)

    def within(self, values: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """Whether all of a record's numbers have a place in the tables."""
        places = _whole(values) - self.low
        levels = np.array([len(table) for table in self.tables])
        return np.asarray(((places >= 0) & (places < levels)).all(axis=1))

    def ways_and_bits(self, values: npt.ArrayLike) -> tuple[IntArray, FloatArray]:
        """Return how each record is sent, and its length in bits: −log₂ of the probability that the code gives it."""
        whole = _whole(values)
        if whole.shape[1] != self.width:
            raise InputError(f"rate code: made for {self.width} dimensions, records have {whole.shape[1]}")
        inside = self.within(whole)
        coded = np.full(len(whole), -math.log2(1 - self.raw_share - self.far_share))
        for place, table in enumerate(self.tables):
            spot = np.clip(whole[:, place] - self.low[place], 0, len(table) - 1)
            coded -= np.log2(table[spot])
        ways = np.where(inside, np.where(coded <= self.cap, CODED, RAW), FAR)
        far = FAR_BITS * self.width - math.log2(self.far_share)
        return ways, np.where(inside, np.minimum(coded, self.cap), far)

    def bits(self, values: npt.ArrayLike) -> FloatArray:
        """Return each record's length in bits."""
        return self.ways_and_bits(values)[1]


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
