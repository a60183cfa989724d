"""Read vectors that left devices, with what is known of each row, as a view for the panel: `fedveil leak`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from fedveil.core.arrays import IntArray
from fedveil.core.errors import InputError
from fedveil.data.attribute import Attribute, intersect
from fedveil.data.csv_reading import one_spelling
from fedveil.data.encoding import encode_columns
from fedveil.data.tables import column, read_table, read_vectors, same_rows
from fedveil.view import View

_LEAST_COMBINED = 30
"""Combinations of values with fewer records than this are left out of the intersections."""

_MOST_TEXT_VALUES = 50
"""How many values of a text column that the attacker knows are distinguished; rarer values are merged into one."""


def read_view(
    vectors: Path,
    attributes: Sequence[tuple[Path, str]],
    *,
    given: Sequence[str] = (),
    group: str = "",
    intersections: bool = False,
    columns: Sequence[str] = (),
    key: str = "",
    bins: int = 3,
    seed: int = 0,
) -> View:
    """Read vectors and the attributes of their senders, matched row by row.

    Args:
        vectors: the file, one vector per row.
        attributes: for each attribute, its file and its column.
        given: columns of the first attribute's file that the attacker knows.
        group: the column of the first attribute's file that says whose vector it is; if empty, every row is a person.
        intersections: add all attributes jointly, such as sex × race.
        columns: the vectors' columns; if empty, all except labels in the same file.
        key: which array of an .npz file.
        bins: classes of a continuous attribute.
        seed: the seed of the split into known rows and victims.
    """
    labels_file = attributes[0][0]
    attributes = [(file, one_spelling(name)) for file, name in attributes]
    given, columns = (list(map(one_spelling, names)) for names in (given, columns))
    beside = [*given, *([one_spelling(group)] if group else [])]
    tables = {file: read_table(file) for file in dict.fromkeys(file for file, _ in attributes)}
    by_name: dict[str, Attribute] = {}
    for file, name in attributes:
        if name in by_name:
            raise InputError(f"attribute {name!r} is named twice; name each once")
        by_name[name] = Attribute.from_column(name, column(tables[file], name, file), bins)
    for name in beside:
        if name in by_name:
            raise InputError(f"{name!r} is the attribute itself: it cannot also be given, nor be the group")
    table = tables[labels_file]
    given_table = pd.DataFrame({name: _frequent_values(column(table, name, labels_file)) for name in given})
    groups = _group_numbers(column(table, beside[-1], labels_file)) if group else None

    # Labels in the same file as the vectors are not part of the vectors.
    labels = [name for file, name in attributes if _same(file, vectors)]
    labels += beside if _same(labels_file, vectors) else []
    for name in labels:
        if name in columns:
            raise InputError(f"--columns names {name!r}, which is the attribute, the group or given; leave it out")
    dropped = [] if columns else labels
    matrix, _ = read_vectors(vectors, key=key or None, columns=columns or None, drop=dropped, mapped=True)
    same_rows({str(vectors): len(matrix)} | {str(file): len(rows) for file, rows in tables.items()})
    if intersections:
        if len(by_name) < 2:
            raise InputError("--intersections needs at least two attributes; repeat --attribute")
        joint = intersect(list(by_name.values()), least=_LEAST_COMBINED)
        by_name[joint.name] = joint
    return View.of_vectors(
        matrix,
        by_name,
        groups=groups,
        given=encode_columns(given_table)[0] if given else None,
        given_names=tuple(given),
        seed=seed,
    )


def _frequent_values(given: pd.Series) -> pd.Series:
    """Merge a text column's rare values into one: a column for each would only confuse the attackers."""
    if pd.api.types.is_numeric_dtype(given) or given.nunique() <= _MOST_TEXT_VALUES:
        return given
    frequent = given.value_counts().index[:_MOST_TEXT_VALUES]
    return given.where(given.isin(frequent) | given.isna(), "(other)")


def _group_numbers(names: pd.Series) -> IntArray:
    """Number the groups; a record without a name is a group by itself."""
    codes = pd.factorize(names)[0].astype(np.int64)
    unnamed = codes < 0
    codes[unnamed] = codes.max(initial=-1) + 1 + np.arange(unnamed.sum())
    return codes


def _same(a: Path, b: Path) -> bool:
    return a.resolve() == b.resolve()
