"""Read a vendor's table of outputs: scores, the class that each score column is about, and the true labels.

Every fault is one line that says what is wrong, where, and what to do. The order of the classes is never guessed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from fedveil.audit.outputs import Outputs, both_classes, not_probabilities
from fedveil.audit.percent import from_percent, refuse_percent
from fedveil.core.arrays import FloatArray, IntArray
from fedveil.core.errors import InputError
from fedveil.data.attribute import MISSING, Attribute
from fedveil.data.csv_reading import one_spelling
from fedveil.data.encoding import numbers_of, text_of
from fedveil.data.tables import column, read_table

_ROWS_NAMED = 5
"""How many offending rows a message names."""

_PREFIX = re.compile(r"(?i)^(?:p|prob|probability|proba|score|logit|z|y|class|out|output)?[\W_]*(.+)$")


def read_outputs(
    path: str | Path,
    scores: Sequence[str],
    target: str,
    sensitive: Sequence[str],
    *,
    raw: bool = False,
    percent: bool = False,
    classes: Sequence[str] | None = None,
    group: str | None = None,
    bins: int = 3,
) -> Outputs:
    """Read scores, target and sensitive attributes from one CSV or Parquet file.

    Args:
        path: the file, one row per record.
        scores: columns with the scores, one per class; a single column is the score of the second of two classes.
        target: column with the true class.
        sensitive: columns with sensitive attributes; continuous ones are cut into `bins` classes.
        raw: scores are raw (logits), not probabilities.
        percent: scores are in per cent, 0 to 100.
        classes: the classes in the order of the score columns; `class_order` says when they need not be given.
        group: the column that says whose record it is.
        bins: classes of a continuous sensitive attribute.
    """
    path = Path(path)
    scores, sensitive = [list(map(one_spelling, names)) for names in (scores, sensitive)]
    target, group = one_spelling(target), one_spelling(group) if group else None
    _refuse_shared(path, scores, target, sensitive, group)
    frame = read_table(path, [*scores, target, *sensitive, *([group] if group else [])])
    numbers = np.stack([_numbers(column(frame, name, path), path) for name in scores], axis=1)
    labels, secrets, groups = labels_of(frame, path, target, sensitive, group, bins)
    y = in_order(labels, class_order(scores, labels.values, classes, f"{path}", target))
    if percent:
        numbers = from_percent(numbers, f"{path}")
    fault = None if raw or percent else _not_probabilities(numbers)
    if fault is not None:
        refuse_percent(numbers, f"{path}")
        raise InputError(f"{path}: {fault}; correct the file, or add --raw if the scores are raw (logits)")
    return Outputs(both_classes(numbers, raw), raw, y, secrets, groups, tuple(scores))


def labels_of(
    frame: pd.DataFrame, path: Path, target: str, sensitive: Sequence[str], group: str | None = None, bins: int = 3
) -> tuple[Attribute, dict[str, Attribute], IntArray | None]:
    """Return the target, the sensitive attributes and the groups from a table; missing values are refused."""
    for name in [target, *sensitive]:
        _refuse_missing(column(frame, name, path).isna().to_numpy(), name, path)
    return (
        _categories(column(frame, target, path)),
        {name: Attribute.from_column(name, column(frame, name, path), bins) for name in map(one_spelling, sensitive)},
        None if group is None else _group_numbers(column(frame, group, path), path),
    )


def in_order(labels: Attribute, order: Sequence[str]) -> Attribute:
    """Return an attribute with its values in another order, which may hold further values.

    >>> in_order(Attribute.from_column("y", ["no", "yes"]), ["yes", "maybe", "no"]).codes.tolist()
    [2, 0]
    """
    codes = np.array([*(list(order).index(value) for value in labels.values), MISSING], dtype=np.int64)
    return Attribute(labels.name, codes[labels.codes], tuple(order))


def class_order(
    columns: Sequence[str], values: Sequence[str], classes: Sequence[str] | None, where: str, target: str
) -> list[str]:
    """Return the classes in the order of the score columns; for a single column [first class, second class].

    Args:
        columns: names of the score columns.
        values: the target's values, sorted.
        classes: the order, if the user gives it.
        where: the file, for messages.
        target: the target's name, for messages.

    The order need not be given if the columns are named like the values (yes, p_yes, score no, p0), or if no column's
    name holds a number and the values are 0 … Y−1, in the order of the columns. A single column is the score of class
    1 of 0 and 1, of true of false and true, or of the value that it is named like.

    >>> class_order(["p_no", "p_yes"], ["no", "yes"], None, "file.csv", "y")
    ['no', 'yes']
    >>> class_order(["a", "b", "c"], ["0", "2"], None, "file.csv", "y")
    ['0', '1', '2']
    >>> class_order(["risk_yes"], ["no", "yes"], None, "file.csv", "y")
    Traceback (most recent call last):
    fedveil.core.errors.InputError: file.csv: cannot know which value of 'y' column 'risk_yes' is about; ...
    """
    if classes:
        return _given_order(columns, values, list(classes), where, target)
    if len(columns) == 1:
        return _single_column_order(columns[0], values, where, target)
    named = [_class_in_name(column_name) for column_name in columns]
    if len(set(named)) == len(named) and set(values) <= set(named):
        return named
    numbered = [str(number) for number in range(len(columns))]
    if set(values) <= set(numbered) and not any(re.search(r"\d", column_name) for column_name in columns):
        return numbered
    if set(values) <= set(numbered) and named != numbered:
        raise InputError(
            f"{where}: values of {target!r} are {', '.join(values)}, but the score columns are {', '.join(columns)}; "
            f"give the order with --classes, such as --classes {','.join(numbered)}"
        )
    without_column = [value for value in values if value not in named]
    if len(without_column) < len(values) or len(values) > len(columns):
        raise InputError(
            f"{where}: value {without_column[0]!r} of {target!r} has no score column among {', '.join(columns)}; name "
            "all score columns in --scores, or give their order with --classes"
        )
    raise InputError(
        f"{where}: cannot know which score column ({', '.join(columns)}) is about which value of {target!r}; give the "
        f"order with --classes, such as --classes {','.join(values)}"
    )


def _class_in_name(name: str) -> str:
    """Return what follows p, prob, score, … in a column's name: "p_yes" and "yes" give yes, "p0" gives 0."""
    match = _PREFIX.match(name)
    rest = match[1] if match else name
    glued = len(rest) < len(name) and not re.search(r"[\W_]", name[: len(name) - len(rest)])
    return name if glued and not rest.isdigit() else rest  # "pink" is not the p of "ink"


def _given_order(
    columns: Sequence[str], values: Sequence[str], classes: list[str], where: str, target: str
) -> list[str]:
    count = max(2, len(columns))
    if len(classes) != count or len(set(classes)) != count:
        raise InputError(
            f"--classes {','.join(classes)}: name {count} different classes, in the order of the "
            f"{'score columns' if len(columns) > 1 else 'score: first the class of low scores, then that of high ones'}"
        )
    for value in values:
        if value not in classes:
            raise InputError(f"{where}: value {value!r} of {target!r} is not among --classes {','.join(classes)}")
    return classes


def _single_column_order(name: str, values: Sequence[str], where: str, target: str) -> list[str]:
    if len(values) > 2:
        raise InputError(
            f"{where}: {target!r} has {len(values)} values ({', '.join(values[:6])}{', …' * (len(values) > 6)}), and "
            f"one score column ({name!r}) distinguishes two; name one column per class in --scores"
        )
    if set(values) <= {"0", "1"}:
        return ["0", "1"]
    if {value.lower() for value in values} == {"false", "true"}:
        return sorted(values, key=str.lower)
    high = _class_in_name(name)
    if len(values) == 2 and high in values:
        return [next(value for value in values if value != high), high]
    raise InputError(
        f"{where}: cannot know which value of {target!r} column {name!r} is about; give the order with --classes, the "
        f"class of high scores last, such as --classes {','.join(values)}"
    )


def _refuse_shared(path: Path, scores: list[str], target: str, sensitive: list[str], group: str | None) -> None:
    """Refuse a column in two roles: the audit would answer another question than the one asked."""
    if not scores or not target or not sensitive:
        raise InputError(f"{path}: name the score columns, the target and at least one sensitive attribute")
    roles = [(name, "a score") for name in scores] + [(target, "the target")]
    roles += [(name, "a sensitive attribute") for name in sensitive] + ([(group, "the group")] if group else [])
    role_of: dict[str, str] = {}
    for name, role in roles:
        if name in role_of:
            how = f"twice as {role}" if role_of[name] == role else f"both as {role_of[name]} and as {role}"
            raise InputError(f"{path}: column {name!r} is named {how}; each column can have only one role")
        role_of[name] = role


def _numbers(series: pd.Series, path: Path) -> FloatArray:
    numbers = None if series.dtype.kind in "mM" else numbers_of(series)
    if numbers is None:
        example = text_of(series.dropna().iloc[0])[:30] if series.notna().any() else "nothing"
        raise InputError(f"{path}: score column {series.name!r} holds {example!r}, not numbers; name score columns")
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
    """Name rows as people count them: the first below the header is 1."""
    named = ", ".join(str(row + 1) for row in rows[:_ROWS_NAMED])
    return f"row{'s' * (len(rows) > 1)} {named}{', …' * (len(rows) > _ROWS_NAMED)}"


def _categories(series: pd.Series) -> Attribute:
    """Read the target; numbers name its classes, and are never cut into bins."""
    if pd.api.types.is_numeric_dtype(series) and not pd.api.types.is_bool_dtype(series):
        numbers = series.to_numpy(dtype=np.float64)
        return Attribute.from_column(str(series.name), [f"{number:.15g}" for number in numbers])
    return Attribute.from_column(str(series.name), series)


def _not_probabilities(numbers: FloatArray) -> str | None:
    if numbers.shape[1] > 1:
        return not_probabilities(numbers)
    outside = np.flatnonzero((numbers[:, 0] < 0) | (numbers[:, 0] > 1))
    return f"row {outside[0] + 1} holds {numbers[outside[0], 0]:.6g}, which is no probability" if len(outside) else None


def _group_numbers(names: pd.Series, path: Path) -> IntArray:
    _refuse_missing(names.isna().to_numpy(), str(names.name), path)
    return np.asarray(pd.factorize(names)[0], dtype=np.int64)
