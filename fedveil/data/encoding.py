"""Columns of a table as one matrix of floats."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from fedveil.core.errors import InputError

MISSING_NAME = "(missing)"
"""How a missing value is named among the values of a column of text."""

Rows = npt.NDArray[np.bool_] | npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Encoded:
    """A table as numbers.

    Attributes:
        x: (n, d), float32.
        names: the d features' names.
        columns: for each feature, the column of the table that it comes from; the name alone, such as "a=b=c", may be
            ambiguous.
    """

    x: npt.NDArray[np.float32]
    names: tuple[str, ...]
    columns: tuple[str, ...]


def encode_columns(
    frame: pd.DataFrame, *, train: Rows | None = None, categorical: Collection[str] = ()
) -> tuple[npt.NDArray[np.float32], list[str]]:
    """Return the columns as a float32 matrix, with the names of its columns.

    Numbers and dates are standardised by mean and deviation of the training rows; missing ones are replaced by the
    training rows' median and marked in a further column "<name> missing". Text, and a numeric column that is named in
    `categorical`, becomes one column per value, "<name>=<value>"; a missing value counts as a value. The values are
    those of all rows, so that the matrix has the same columns whatever the split. Booleans become 0 and 1.

    Args:
        frame: the table; all of its columns are encoded.
        train: mask or indices of the rows whose statistics are used (default: all rows).
        categorical: numeric columns whose numbers are codes, not quantities.

    >>> matrix, names = encode_columns(pd.DataFrame({"age": [20.0, 40.0, None], "sex": ["f", "m", "f"]}))
    >>> names
    ['age', 'age missing', 'sex=f', 'sex=m']
    >>> matrix.tolist()
    [[-1.0, 0.0, 1.0, 0.0], [1.0, 0.0, 0.0, 1.0], [0.0, 1.0, 1.0, 0.0]]
    """
    encoded = encode_table(frame, train=train, categorical=categorical)
    return encoded.x, list(encoded.names)


def encode_table(frame: pd.DataFrame, *, train: Rows | None = None, categorical: Collection[str] = ()) -> Encoded:
    """Encode as `encode_columns` does, and also return the column that each feature comes from.

    >>> encode_table(pd.DataFrame({"age": [20.0, None], "sex": ["f", "m"]})).columns
    ('age', 'age', 'sex', 'sex')
    """
    rows = np.arange(len(frame)) if train is None else np.arange(len(frame))[train]
    blocks: list[npt.NDArray[np.float32]] = [np.zeros((len(frame), 0), dtype=np.float32)]
    names: list[str] = []
    columns: list[str] = []
    for position in range(frame.shape[1]):
        name, series = str(frame.columns[position]), frame.iloc[:, position]
        numbers = None if name in categorical else numbers_of(series)
        block, block_names = _one_hot(name, series) if numbers is None else _standardised(name, numbers, series, rows)
        blocks.append(block)
        names += block_names
        columns += [name] * len(block_names)
    return Encoded(np.concatenate(blocks, axis=1), tuple(names), tuple(columns))


def numbers_of(series: pd.Series) -> npt.NDArray[np.float64] | None:
    """Return a column of numbers, booleans or dates as floats, NaN where missing; None for any other column."""
    if isinstance(series.dtype, pd.CategoricalDtype):
        return None
    if pd.api.types.is_datetime64_any_dtype(series) or pd.api.types.is_timedelta64_dtype(series):
        days = series.to_numpy(dtype="datetime64[ns]" if series.dtype.kind == "M" else "timedelta64[ns]")
        return np.where(np.isnat(days), np.nan, days.astype(np.int64) / 86_400e9)
    if pd.api.types.is_complex_dtype(series):
        raise InputError(f"column {series.name!r} holds complex numbers; give real and imaginary parts as two columns")
    if pd.api.types.is_numeric_dtype(series):
        return series.to_numpy(dtype=np.float64, na_value=np.nan)
    if series.dtype != object or any(isinstance(value, str | bytes) for value in series.dropna()):
        return None
    try:  # decimals, or numbers beside None
        return pd.Series(pd.to_numeric(series, errors="raise")).to_numpy(dtype=np.float64, na_value=np.nan)
    except (TypeError, ValueError):
        return None


def nested_kind(series: pd.Series) -> str | None:
    """Return what a column with several values per record holds (lists, structs, maps); None for any other column.

    >>> nested_kind(pd.Series([None, {"a": 1}])), nested_kind(pd.Series(["x", None]))
    ('structs', None)
    """
    if series.dtype != object:
        return None
    for value in series:
        if isinstance(value, np.ndarray):
            first = next((item for item in value if item is not None), None) if value.dtype == object else None
            kind = None if first is None else nested_kind(pd.Series([first], dtype=object))
            return f"lists of {kind}" if kind else "lists of text" if isinstance(first, str) else "lists"
        if isinstance(value, dict):
            return "structs"
        if isinstance(value, list | tuple | set):
            pairs = (
                isinstance(value, list) and value and all(isinstance(pair, tuple) and len(pair) == 2 for pair in value)
            )
            return "maps" if pairs else "lists"
    return None


def text_of(value: object) -> str:
    """Return a value as text; bytes, in which some Parquet files store text, are read as UTF-8."""
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)


def value_name(value: object) -> str:
    """Return the name of a category; 1.0 and 1 share one, since a column with gaps turns integers into floats."""
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return text_of(value).strip()


def _standardised(
    name: str, numbers: npt.NDArray[np.float64], series: pd.Series, rows: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.float32], list[str]]:
    if np.isinf(numbers).any():
        raise InputError(f"column {name!r} holds infinite values; remove or replace them")
    missing = np.isnan(numbers)
    present = numbers[rows][~missing[rows]]
    filled = np.where(missing, np.median(present) if len(present) else 0.0, numbers)
    if not pd.api.types.is_bool_dtype(series):
        mean = present.mean() if len(present) else 0.0
        # a column that is constant in training is only centred
        deviation = present.std() if len(present) and present.std() > 1e-12 * max(1.0, abs(mean)) else 1.0
        filled = (filled - mean) / deviation
    columns, names = [filled], [name]
    if missing.any():
        columns, names = [filled, missing.astype(np.float64)], [name, f"{name} missing"]
    return np.stack(columns, axis=1).astype(np.float32), names


def _one_hot(name: str, series: pd.Series) -> tuple[npt.NDArray[np.float32], list[str]]:
    kind = nested_kind(series)
    if kind is not None:
        raise InputError(f"column {name!r} holds {kind}, not one value per record; leave it out")
    codes, distinct = pd.factorize(series, sort=False)
    labels = [value_name(value) for value in distinct]
    order = sorted(set(labels))
    column_of = np.array([order.index(label) for label in labels] + [len(order)], dtype=np.int64)
    width = len(order) + bool((codes == -1).any())
    block = np.zeros((len(series), width), dtype=np.float32)
    block[np.arange(len(series)), column_of[codes]] = 1.0  # code −1, a missing value, takes the last entry
    return block, [f"{name}={value}" for value in [*order, MISSING_NAME][:width]]
