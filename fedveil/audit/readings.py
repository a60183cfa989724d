"""Ways to read a code in released scores: each turns a record's scores into one of a few cells.

A vendor who wants to hide s where ordinary attackers do not look can choose among places: a digit, its parity, the sum
of two digits, the bits in which a computer stores a number, how many digits it has, whether other records have exactly
the same score, what a row's scores sum to, which of two nearly equal classes comes first, and in which order records
with equal scores stand in the file. A reading is *fine* if rounding to two decimals would remove what it reads.

Guarantee: none. There are more codes than readings; a key that the auditor lacks defeats any list.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fedveil.audit.digits import Digits, digits_of
from fedveil.audit.outputs import Outputs
from fedveil.core.arrays import FloatArray, IntArray

KEPT_DECIMALS = 2
"""Probabilities that are rounded to this many decimals have no fine readings."""

_MOST_CELLS = 200
_PAIRED_PLACES = 8
"""Sums of two digits are formed up to this decimal."""
_PAIRED_COLUMNS = 10
_SUMMED_WITHIN = 4
"""With more columns than this, sums of two digits of the same column are only even or odd: there would be too many."""
_BITS_ABOVE = 4
"""The most significant bits of a fraction say how large the number is, and are no code."""
_SIGNIFICANT = 8
_FIXED_POINT = range(7, 31)
"""Binary places below 1/100."""
_REPEATED = 4
"""A value is part of a code book if at least this many records have it."""
_TIE_SIZES = (2, 3, 6, 21, 101)
_NEARLY_EQUAL = 1e-3

_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")


@dataclass(frozen=True, eq=False)
class Reading:
    """One way to read scores.

    Attributes:
        name: what is read, "the fourth decimal of p1".
        cells: (n,), 0 … size − 1: what each record shows.
        size: the number of cells.
        fine: whether rounding to two decimals would remove it.
    """

    name: str
    cells: IntArray
    size: int
    fine: bool

    @classmethod
    def of(cls, name: str, shown: IntArray, fine: bool) -> Reading:
        """Number the values that occur; rare ones share a cell if there are too many."""
        if shown.min() >= 0 and shown.max() < len(shown):  # numbering by counting is quicker than by sorting
            occurring = np.bincount(shown)
            counts, cells = occurring[occurring > 0], (np.cumsum(occurring > 0) - 1)[shown]
        else:
            _, cells, counts = np.unique(shown, return_inverse=True, return_counts=True)
        if len(counts) > _MOST_CELLS:
            rank = np.empty(len(counts), dtype=np.int64)
            rank[np.argsort(-counts, kind="stable")] = np.arange(len(counts))
            cells = np.minimum(rank, _MOST_CELLS - 1)[cells]
        return cls(name, np.asarray(cells, dtype=np.int64), min(len(counts), _MOST_CELLS), fine)

    def keyed(self, key: IntArray, values: int, by: str) -> Reading:
        """Return the reading for somebody who reads it differently for each value of a key."""
        return Reading(f"{self.name} (given {by})", self.cells * values + key, self.size * values, self.fine)


def readings(outputs: Outputs) -> list[Reading]:
    """Return the readings that distinguish records, each also with the predicted label as a key."""
    columns = outputs.released
    digits = {name: digits_of(column) for name, column in columns.items()}
    distinct = [reading for reading in _all(outputs, columns, digits) if reading.size > 1]
    values = len(outputs.y.values)
    keyed = [
        reading.keyed(outputs.predicted, values, f"the predicted {outputs.y.name}")
        for reading in distinct
        if reading.size * values <= _MOST_CELLS
    ]
    return distinct + keyed


def position_in_file(outputs: Outputs) -> Reading:
    """Return where in the file each record stands, in twenty parts: an auditor's own order may reveal s."""
    return Reading.of("the position in the file", np.arange(len(outputs)) * 20 // len(outputs), False)


def order_of_equals(outputs: Outputs) -> Reading:
    """Return in which quarter of the records with equal scores each stands, by the file's order; 0 if it is alone."""
    _, group, counts = np.unique(outputs.scores, axis=0, return_inverse=True, return_counts=True)
    group = group.reshape(-1)
    by_group = np.argsort(group, kind="stable")
    starts = np.cumsum(counts) - counts
    rank = np.empty(len(group), dtype=np.int64)
    rank[by_group] = np.arange(len(group)) - starts[group[by_group]]
    shown = np.where(counts[group] > 1, 1 + 4 * rank // counts[group], 0)
    return Reading.of("the order of records with equal scores", shown, True)


def finer_than_kept(outputs: Outputs) -> bool:
    """Return whether some column tells records apart that would be equal in it if rounded to two decimals.

    Column by column: rounded rows of several columns are mostly distinct, too, and would hide a code in one of them.
    """
    kept = np.round(outputs.soft if outputs.raw else outputs.scores, KEPT_DECIMALS)
    pairs = zip(outputs.scores.T, kept.T, strict=True)
    return any(len(np.unique(column)) > len(np.unique(rounded)) for column, rounded in pairs)


def _all(outputs: Outputs, columns: dict[str, FloatArray], digits: dict[str, Digits]) -> Iterator[Reading]:
    for name, column in columns.items():
        finer = len(np.unique(column)) > len(np.unique(np.round(column, KEPT_DECIMALS)))
        yield from _of_digits(name, digits[name], len(columns) <= _SUMMED_WITHIN)
        if finer:
            yield from _below_two_decimals(name, column, digits[name])
        yield from _of_repetition(name, column, finer)
    yield from _of_sums(digits)
    if len(columns) > 1:
        yield from _of_rows(outputs, columns)


def _of_digits(name: str, digits: Digits, sums: bool) -> Iterator[Reading]:
    longest = int(digits.printed.max(initial=0))
    yield Reading.of(f"the digit before the point of {name}", digits.whole, False)
    for k in range(longest):
        yield Reading.of(f"the {ordinal(k + 1)} decimal of {name}", digits.decimals[:, k], k >= KEPT_DECIMALS)
    for k in range(KEPT_DECIMALS - 1, min(longest, _PAIRED_PLACES)):
        digit, label = digits.decimals[:, k], f"the {ordinal(k + 1)} decimal of {name}"
        yield Reading.of(f"{label}, even or odd", digit % 2, k >= KEPT_DECIMALS)
        yield Reading.of(f"{label}, below five or not", digit // 5, k >= KEPT_DECIMALS)
    for k in range(min(longest, _PAIRED_PLACES) - 1):
        pair = 10 * digits.decimals[:, k] + digits.decimals[:, k + 1]
        label = f"the {ordinal(k + 1)} and {ordinal(k + 2)} decimals of {name}"
        yield Reading.of(label, pair, k + 1 >= KEPT_DECIMALS)
    for j, k in itertools.combinations(range(min(longest, _PAIRED_PLACES)), 2):
        total = digits.decimals[:, j] + digits.decimals[:, k]
        label = f"the sum of the {ordinal(j + 1)} and {ordinal(k + 1)} decimals of {name}"
        yield Reading.of(f"{label}, even or odd", total % 2, k >= KEPT_DECIMALS)
        if sums:
            yield Reading.of(f"{label}, modulo 10", total % 10, k >= KEPT_DECIMALS)
    last = np.where(
        digits.printed > 0, digits.decimals[np.arange(len(digits.printed)), np.maximum(digits.printed, 1) - 1], 0
    )
    yield Reading.of(f"the last decimal of {name}", last, longest > KEPT_DECIMALS)
    yield Reading.of(f"the number of decimals of {name}", digits.printed, longest > KEPT_DECIMALS)


def _below_two_decimals(name: str, column: FloatArray, digits: Digits) -> Iterator[Reading]:
    for k in range(_SIGNIFICANT):
        yield Reading.of(f"the {ordinal(k + 1)} significant digit of {name}", digits.significant[:, k], True)
    for place in _FIXED_POINT:
        label = f"binary place {place} of {name}"
        yield Reading.of(label, np.floor(np.abs(column) * 2.0**place).astype(np.int64) % 2, True)
    for bit in range(digits.bits.shape[1] - _BITS_ABOVE):
        yield Reading.of(f"bit {bit} of {name} as {digits.stored}", digits.bits[:, bit], True)
    yield Reading.of(f"the parity of the bits of {name} as {digits.stored}", digits.bits.sum(axis=1) % 2, True)
    ending = np.where(digits.bits.any(axis=1), digits.bits.argmax(axis=1), digits.bits.shape[1])
    yield Reading.of(f"the zeros at the end of {name} as {digits.stored}", ending, True)


def _of_repetition(name: str, column: FloatArray, fine: bool) -> Iterator[Reading]:
    _, which, counts = np.unique(column, return_inverse=True, return_counts=True)
    yield Reading.of(f"how many records share their {name}", np.digitize(counts[which], _TIE_SIZES), fine)
    yield Reading.of(f"the repeated values of {name}", np.where(counts[which] >= _REPEATED, which + 1, 0), fine)
    if fine:
        coarse = np.unique(np.round(column, KEPT_DECIMALS), return_inverse=True)[1]
        yield Reading.of(f"{name} to two decimals", coarse, False)


def _of_sums(digits: dict[str, Digits]) -> Iterator[Reading]:
    """Sums of the digits of several columns at the same decimal."""
    if len(digits) < 2:
        return
    longest = max(int(each.printed.max(initial=0)) for each in digits.values())
    for k in range(longest):
        total = np.sum([each.decimals[:, k] for each in digits.values()], axis=0)
        fine, label = k >= KEPT_DECIMALS, f"the sum of all scores' {ordinal(k + 1)} decimals"
        yield Reading.of(f"{label}, modulo 10", total % 10, fine)
        yield Reading.of(f"{label}, even or odd", total % 2, fine)
    if len(digits) > _PAIRED_COLUMNS:
        return
    for (first, a), (second, b) in itertools.combinations(digits.items(), 2):
        for k in range(min(longest, _PAIRED_PLACES)):
            label = f"the sum of the {ordinal(k + 1)} decimals of {first} and {second}, even or odd"
            yield Reading.of(label, (a.decimals[:, k] + b.decimals[:, k]) % 2, k >= KEPT_DECIMALS)


def _of_rows(outputs: Outputs, columns: dict[str, FloatArray]) -> Iterator[Reading]:
    scores = outputs.scores
    _, which, counts = np.unique(scores, axis=0, return_inverse=True, return_counts=True)
    which, fine = which.reshape(-1), finer_than_kept(outputs)
    yield Reading.of("how many records share all scores", np.digitize(counts[which], _TIE_SIZES), fine)
    yield Reading.of("the repeated rows of scores", np.where(counts[which] >= _REPEATED, which + 1, 0), fine)
    if not outputs.raw:
        rest = np.round(scores.sum(axis=1) - 1, 17)
        yield Reading.of("whether scores sum to 1", np.sign(rest).astype(np.int64), fine)
        values, cells = np.unique(rest, return_inverse=True)
        if len(values) > _MOST_CELLS:
            cells = np.searchsorted(np.quantile(rest, np.linspace(0, 1, 17)[1:-1]), rest)
        yield Reading.of("what scores sum to", cells, fine)
    for (first, a), (second, b) in itertools.combinations(itertools.islice(columns.items(), _PAIRED_COLUMNS), 2):
        close = (np.abs(a - b) < _NEARLY_EQUAL) & (np.maximum(a, b) == scores.max(axis=1))  # small ones are all close
        side = np.where(close, np.sign(a - b) + 1, 3).astype(np.int64)
        yield Reading.of(f"which of {first} and {second} is higher where both are highest", side, fine)


def ordinal(number: int) -> str:
    """Return 1 as "first", 11 as "11th".

    >>> ordinal(4), ordinal(12)
    ('fourth', '12th')
    """
    return _ORDINALS[number - 1] if number <= len(_ORDINALS) else f"{number}th"
