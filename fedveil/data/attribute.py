"""A label of each record: a sensitive attribute, or what a task predicts."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from fedveil.core.arrays import IntArray
from fedveil.core.errors import InputError
from fedveil.data.encoding import nested_kind, value_name

MISSING = -1
"""The code of a record without a value."""

_MOST_VALUES_OF_A_CATEGORY = 20
"""A numeric column with more distinct values is taken to be continuous and is cut into bins."""


@dataclass(frozen=True, eq=False)
class Attribute:
    """Integer codes into named values; `MISSING` for a record without a value.

    Attributes:
        name: the column's name.
        codes: one integer per record, 0 … K−1, or `MISSING`.
        values: the K values' names, in the order of the codes.
    """

    name: str
    codes: IntArray
    values: tuple[str, ...]

    def __post_init__(self) -> None:
        codes = np.asarray(self.codes, dtype=np.int64)
        if codes.ndim != 1:
            raise InputError(f"attribute {self.name!r}: codes must be one per record, got shape {codes.shape}")
        if len(codes) and (codes.min() < MISSING or codes.max() >= len(self.values)):
            raise InputError(f"attribute {self.name!r}: a code lies outside 0 … {len(self.values) - 1}")
        object.__setattr__(self, "codes", codes)
        object.__setattr__(self, "values", tuple(str(value) for value in self.values))

    def __len__(self) -> int:
        return len(self.codes)

    def __repr__(self) -> str:
        return f"Attribute({self.name!r}, n={len(self)}, values={list(self.values)})"

    @property
    def known(self) -> npt.NDArray[np.bool_]:
        """Which records have a value."""
        return np.asarray(self.codes != MISSING)

    @property
    def counts(self) -> IntArray:
        """How many records have each value."""
        return np.bincount(self.codes[self.known], minlength=len(self.values)).astype(np.int64)

    @property
    def prior(self) -> float:
        """The accuracy of always guessing the most frequent value."""
        counts = self.counts
        return float(counts.max() / counts.sum())

    def take(self, rows: npt.NDArray[np.integer] | npt.NDArray[np.bool_]) -> Attribute:
        """Return the attribute of some records; the values and their codes stay the same."""
        return Attribute(self.name, self.codes[rows], self.values)

    def merge(self, name: str, value_of: dict[str, str]) -> Attribute:
        """Return a coarser attribute; values that `value_of` does not name become missing."""
        merged = tuple(dict.fromkeys(value_of[value] for value in self.values if value in value_of))
        codes = np.array([merged.index(value_of[v]) if v in value_of else MISSING for v in self.values] + [MISSING])
        return Attribute(name, codes[self.codes], merged)

    @classmethod
    def from_column(
        cls, name: str, column: pd.Series | Sequence[object] | npt.NDArray[np.generic], bins: int = 3
    ) -> Attribute:
        """Read a column: strings and few-valued numbers as categories, other numbers in quantile bins.

        Empty cells and NaN become missing; bytes are read as UTF-8; lists, structs and maps are refused. A numeric
        column with more than 20 distinct values is taken to be continuous and is cut at its quantiles into `bins`
        classes of about equal size.

        >>> Attribute.from_column("sex", ["f", "m", None, "f"]).codes.tolist()
        [0, 1, -1, 0]
        >>> Attribute.from_column("age", list(range(30))).values
        ('≤ 9.667', '9.667 – 19.33', '> 19.33')
        """
        series = pd.Series(column).reset_index(drop=True)
        kind = nested_kind(series)
        if kind is not None:
            raise InputError(f"attribute {name!r} holds {kind}, not one value per record; choose another column")
        if pd.api.types.is_numeric_dtype(series) and not pd.api.types.is_bool_dtype(series):
            numbers = series.to_numpy(dtype=np.float64, na_value=np.nan)
            if np.isinf(numbers).any():
                raise InputError(f"attribute {name!r} holds infinite values; remove or replace them")
            if len(np.unique(numbers[~np.isnan(numbers)])) > _MOST_VALUES_OF_A_CATEGORY:
                return cls._binned(name, numbers, bins)
        first_codes, distinct = pd.factorize(series)  # so that names are built once per value, not once per record
        names = [value_name(value) for value in distinct]
        categories = sorted({value for value in names if value}, key=_natural)
        code_of = {value: code for code, value in enumerate(categories)}
        codes = np.array([code_of.get(value, MISSING) for value in names] + [MISSING], dtype=np.int64)
        return cls(name, codes[first_codes], tuple(categories))  # −1, a missing value, takes the last entry

    @classmethod
    def _binned(cls, name: str, numbers: npt.NDArray[np.float64], bins: int) -> Attribute:
        if bins < 2:
            raise InputError(f"attribute {name!r} is continuous: bins must be at least 2, got {bins}")
        present = ~np.isnan(numbers)
        inner = np.quantile(numbers[present], np.linspace(0, 1, bins + 1)[1:-1])
        edges = np.unique(inner[inner < numbers[present].max()])  # an edge at the maximum would leave an empty bin
        codes = np.where(present, np.searchsorted(edges, numbers, side="left"), MISSING)
        shown = [f"{edge:.4g}" for edge in edges]
        names = (
            [f"≤ {shown[0]}", *(f"{a} – {b}" for a, b in itertools.pairwise(shown)), f"> {shown[-1]}"]
            if shown
            else ["all"]
        )
        return cls(name, codes.astype(np.int64), tuple(names))


def intersect(attributes: Sequence[Attribute], least: int = 1) -> Attribute:
    """Return the joint attribute (sex × race …) of the combinations of values that occur at least `least` times.

    Records with a rarer combination have no value of the joint attribute.

    >>> sex = Attribute.from_column("sex", ["f", "m", "f"])
    >>> intersect([sex, Attribute.from_column("old", [0, 1, 1])]).values
    ('f × 0', 'f × 1', 'm × 1')
    """
    present = np.logical_and.reduce([attribute.known for attribute in attributes])
    joint = np.zeros(len(present), dtype=np.int64)
    for attribute in attributes:
        joint = joint * len(attribute.values) + attribute.codes
    combinations, times = np.unique(joint[present], return_counts=True)
    present &= np.isin(joint, combinations[times >= least])
    occurring, codes = np.unique(joint[present], return_inverse=True)
    shape = tuple(len(attribute.values) for attribute in attributes)
    parts = [np.unravel_index(cell, shape) for cell in occurring]
    names = tuple(" × ".join(a.values[int(i)] for a, i in zip(attributes, part, strict=True)) for part in parts)
    full = np.full(len(present), MISSING, dtype=np.int64)
    full[present] = codes
    return Attribute(" × ".join(attribute.name for attribute in attributes), full, names)


def _natural(value: str) -> tuple[int, float, str]:
    """Return the sort key of a value: numbers first, by size, then text."""
    try:
        return (0, float(value), value)
    except ValueError:
        return (1, 0.0, value)
