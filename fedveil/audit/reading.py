"""Reading a vendor's table of outputs: every fault is one line that says what, where, and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from fedveil.audit.class_order import class_order
from fedveil.audit.outputs import Outputs, not_probabilities
from fedveil.core.arrays import FloatArray, IntArray
from fedveil.core.errors import InputError
from fedveil.data.attribute import MISSING, Attribute
from fedveil.data.csv_reading import one_spelling
from fedveil.data.encoding import numbers_of, text_of
from fedveil.data.tables import column, read_table

_ROWS_NAMED = 5


def read_outputs(
    path: str | Path,
    scores: Sequence[str],
    target: str,
    sensitive: Sequence[str],
    *,
    raw: bool = False,
    classes: Sequence[str] | None = None,
    group: str | None = None,
    bins: int = 3,
) -> Outputs:
    """Read scores, target and sensitive attributes from one CSV or Parquet file.

    Args:
        path: the file, one row per record.
        scores: columns with the scores, one per class; a single one is the score of the second of two classes.
        target: column with the true class.
        sensitive: columns with sensitive attributes; continuous ones are cut into `bins` classes.
        raw: scores are raw (logits), not probabilities.
        classes: the classes in the order of the score columns; see `class_order` for what is understood without.
        group: column that says whose record it is.
        bins: classes of a continuous sensitive attribute.
    """
    path = Path(path)
    scores, sensitive = [list(map(one_spelling, names)) for names in (scores, sensitive)]
    target, whose = one_spelling(target), one_spelling(group) if group else None
    _refuse_shared(path, scores, target, sensitive, whose)
    frame = read_table(path, [*scores, target, *sensitive, *([whose] if whose else [])])
    numbers = np.stack([_numbers(column(frame, name, path), path) for name in scores], axis=1)
    labels, secrets, groups = labels_of(frame, path, target, sensitive, whose, bins)
    y = in_order(labels, class_order(scores, labels.values, classes, f"{path}", target))
    fault = None if raw else _not_probabilities(numbers)
    if fault is not None:
        raise InputError(f"{path}: {fault}; mend the file, or say --raw if the scores are raw (logits)")
    return Outputs(of_both(numbers, raw), raw, y, secrets, groups)


def labels_of(
    frame: pd.DataFrame, path: Path, target: str, sensitive: Sequence[str], group: str | None = None, bins: int = 3
) -> tuple[Attribute, dict[str, Attribute], IntArray | None]:
    """Return the target, the sensitive attributes and the groups out of a table; missing values are refused."""
    for name in [target, *sensitive]:
        _refuse_missing(column(frame, name, path).isna().to_numpy(), name, path)
    return (
        _categories(column(frame, target, path)),
        {name: Attribute.from_column(name, column(frame, name, path), bins) for name in map(one_spelling, sensitive)},
        None if group is None else _groups(column(frame, group, path), path),
    )


def in_order(labels: Attribute, order: Sequence[str]) -> Attribute:
    """Return an attribute with its values in another order, perhaps among others.

    >>> in_order(Attribute.from_column("y", ["no", "yes"]), ["yes", "maybe", "no"]).codes.tolist()
    [2, 0]
    """
    codes = np.array([*(list(order).index(value) for value in labels.values), MISSING], dtype=np.int64)
    return Attribute(labels.name, codes[labels.codes], tuple(order))


def _refuse_shared(path: Path, scores: list[str], target: str, sensitive: list[str], whose: str | None) -> None:
    """Refuse a column in two roles: the answer would be about the wrong question."""
    if not scores or not target or not sensitive:
        raise InputError(f"{path}: name the score columns, the target and at least one sensitive attribute")
    roles = [(name, "a score") for name in scores] + [(target, "the target")]
    roles += [(name, "a sensitive attribute") for name in sensitive] + ([(whose, "the group")] if whose else [])
    seen: dict[str, str] = {}
    for name, role in roles:
        if name in seen:
            said = f"twice as {role}" if seen[name] == role else f"both as {seen[name]} and as {role}"
            raise InputError(f"{path}: column {name!r} is named {said}; each column can have one part only")
        seen[name] = role


def _numbers(series: pd.Series, path: Path) -> FloatArray:
    numbers = None if series.dtype.kind in "mM" else numbers_of(series)
    if numbers is None:
        example = text_of(series.dropna().iloc[0])[:30] if series.notna().any() else "nothing"
        raise InputError(f"{path}: score column {series.name!r} holds {example!r}, no numbers; name score columns")
    _refuse_missing(np.isnan(numbers), str(series.name), path)
    infinite = np.flatnonzero(np.isinf(numbers))
    if len(infinite):
        raise InputError(f"{path}: column {series.name!r} is infinite in {_rows(infinite)}; remove those rows")
    return numbers


def _refuse_missing(missing: np.ndarray, name: str, path: Path) -> None:
    rows = np.flatnonzero(missing)
    if len(rows):
        count = f"{len(rows)} missing value{'s' * (len(rows) > 1)}"
        raise InputError(f"{path}: column {name!r} has {count} ({_rows(rows)}); fill or remove them")


def _rows(rows: IntArray) -> str:
    """Name rows as a person counts them: the first below the header is 1."""
    named = ", ".join(str(row + 1) for row in rows[:_ROWS_NAMED])
    return f"row{'s' * (len(rows) > 1)} {named}{', …' * (len(rows) > _ROWS_NAMED)}"


def _categories(series: pd.Series) -> Attribute:
    """Read the target: a class is a class, however many there are and whatever number names it."""
    if pd.api.types.is_numeric_dtype(series) and not pd.api.types.is_bool_dtype(series):
        numbers = series.to_numpy(dtype=np.float64)
        return Attribute.from_column(str(series.name), [f"{number:.15g}" for number in numbers])
    return Attribute.from_column(str(series.name), series)


def of_both(numbers: FloatArray, raw: bool) -> FloatArray:
    """Of a single column, the second class's score, make two."""
    if numbers.shape[1] > 1:
        return numbers
    return np.hstack([np.zeros_like(numbers) if raw else 1 - numbers, numbers])


def _not_probabilities(numbers: FloatArray) -> str | None:
    if numbers.shape[1] > 1:
        return not_probabilities(numbers)
    outside = np.flatnonzero((numbers[:, 0] < 0) | (numbers[:, 0] > 1))
    return f"row {outside[0] + 1} holds {numbers[outside[0], 0]:.6g}, which is no probability" if len(outside) else None


def _groups(whose: pd.Series, path: Path) -> IntArray:
    _refuse_missing(whose.isna().to_numpy(), str(whose.name), path)
    return np.asarray(pd.factorize(whose)[0], dtype=np.int64)
