"""A table of your own: CSV or Parquet, one record per row."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from fedveil.core.arrays import IntArray
from fedveil.core.errors import InputError, nearest
from fedveil.data.attribute import Attribute
from fedveil.data.attribute_data import AttributeData, Split
from fedveil.data.csv_reading import one_spelling
from fedveil.data.encoding import encode_table, nested_kind, numbers_of
from fedveil.data.source import Source
from fedveil.data.splits import joint_strata, random_split
from fedveil.data.tables import column, read_table

_SPLITS = {
    "train": Split.TRAIN,
    "training": Split.TRAIN,
    "validation": Split.VALIDATION,
    "valid": Split.VALIDATION,
    "val": Split.VALIDATION,
    "dev": Split.VALIDATION,
    "test": Split.TEST,
}
_MANY_VALUES = 100
_TOO_MANY_VALUES = 1000


class Table(Source):
    """Records from a CSV or Parquet file; every column that is not otherwise used is an input.

    Numbers are standardised, text becomes one column per value, missing values are marked. Text that identifies records
    (more than 100 values that mostly differ, or more than 1,000 values), row numbers and unnamed columns are not used
    as inputs: naming one in `features` is an error; if `features` is not given, `facts["dropped_columns"]` says which
    were dropped and why. Records without a target are left out and counted in `facts`.
    """

    name = "table"
    description = "your own CSV or Parquet file (path=…)"

    def read(
        self,
        target: str | None,
        sensitive: Sequence[str],
        seed: int,
        path: str | Path | None = None,
        features: Sequence[str] | None = None,
        group: str | None = None,
        split: str | None = None,
        bins: int = 3,
        keep_sensitive: bool = False,
        validation: float = 0.1,
        test: float = 0.2,
    ) -> AttributeData:
        """Read a table.

        Args:
            target: the task's column, or None.
            sensitive: the columns to protect.
            seed: for the split, if no column states it.
            path: the file.
            features: the input columns (default: all other columns).
            group: the column that says whom a record belongs to; each group stays in one split.
            split: the column that says train, validation or test.
            bins: how many classes a continuous attribute or target is cut into.
            keep_sensitive: keep sensitive columns among the inputs.
            validation: share of validation records, unless a column states the split.
            test: share of test records, unless a column states the split.
        """
        if path is None:
            raise InputError("table: give path=, a CSV or Parquet file")
        target, group, split = (None if name is None else one_spelling(name) for name in (target, group, split))
        sensitive = [one_spelling(name) for name in sensitive]
        features = None if features is None else [one_spelling(name) for name in features]
        where = str(path)
        if target in sensitive:
            raise InputError(f"{where}: {target!r} is both target and sensitive attribute; choose another target")
        frame = read_table(path)
        facts: dict[str, object] = {"path": where, "records_in_file": len(frame)}
        if target is not None:
            labelled = column(frame, target, where).notna().to_numpy(dtype=bool)
            facts["left_out_without_target"] = int((~labelled).sum())
            frame = frame[labelled].reset_index(drop=True)
        if not len(frame):
            raise InputError(f"{where}: no record has a target {target!r}; choose another")
        attributes = {name: Attribute.from_column(name, column(frame, name, where), bins=bins) for name in sensitive}
        y = None if target is None else Attribute.from_column(target, column(frame, target, where), bins=bins)
        groups = None if group is None else _groups(column(frame, group, where), where)
        splits = (
            random_split(
                len(frame),
                seed=seed,
                validation=validation,
                test=test,
                strata=joint_strata([*attributes.values(), *([y] if y else [])]),
                groups=groups,
            )
            if split is None
            else _published_split(column(frame, split, where), where)
        )
        if groups is not None and split is not None:
            _refuse_crossing(column(frame, str(group), where), groups, splits, where)
        used = {name for name in (target, group, split) if name is not None} | (
            set() if keep_sensitive else set(sensitive)
        )
        inputs, facts["dropped_columns"] = _inputs(frame, features, used, where)
        encoded = encode_table(inputs, train=splits == Split.TRAIN)
        return AttributeData(
            x=encoded.x,
            attributes=attributes,
            split=splits,
            y=y,
            groups=groups,
            feature_names=encoded.names,
            columns=encoded.columns,
            name=Path(path).name,
            facts=facts,
        )


def _inputs(
    frame: pd.DataFrame, features: Sequence[str] | None, used: set[str], where: str
) -> tuple[pd.DataFrame, dict[str, str]]:
    """Return the input columns, and the reason for each that was dropped."""
    chosen = [str(name) for name in frame.columns if name not in used] if features is None else list(features)
    for name in chosen:
        if name not in frame.columns:
            raise InputError(f"{where}: no column {name!r}: {nearest(name, map(str, frame.columns))}")
        if name in used:
            raise InputError(
                f"{where}: {name!r} is target, sensitive, group or split, and cannot be a feature; leave it out"
            )
    dropped: dict[str, str] = {}
    for name in chosen:
        reason = _reason_to_drop(name, frame[name])
        if reason and features is not None:
            raise InputError(f"{where}: column {name!r} {reason}; leave it out of the features, or group its values")
        if reason:
            dropped[name] = reason
    remaining = [name for name in chosen if name not in dropped]
    if not remaining:
        why = f" ({'; '.join(f'{name} {reason}' for name, reason in list(dropped.items())[:3])})" if dropped else ""
        raise InputError(f"{where}: no column is left as input{why}; give other features")
    return frame[remaining], dropped


def _reason_to_drop(name: str, series: pd.Series) -> str:
    """Return why a column cannot be an input; empty if it can."""
    if name.startswith("unnamed "):
        return "has no name (a saved index, perhaps)"
    kind = nested_kind(series)
    if kind is not None:
        return f"holds {kind}, not one value per record"
    values, present = int(series.nunique()), int(series.notna().sum())
    numbers = numbers_of(series)
    if numbers is None:
        if values > _TOO_MANY_VALUES or (values > _MANY_VALUES and values > present / 2):
            return f"holds text with {values} different values in {present} records, as an identifier does"
    elif pd.api.types.is_integer_dtype(series) and present == values > _MANY_VALUES and np.ptp(numbers) == present - 1:
        return "holds consecutive numbers, each once, as a row number does"
    return ""


def _groups(series: pd.Series, where: str) -> IntArray:
    if series.isna().any():
        first = int(np.flatnonzero(series.isna().to_numpy(dtype=bool))[0])
        raise InputError(f"{where}: group {series.name!r} is missing in record {first + 1}; every record needs one")
    return pd.factorize(series, sort=True)[0].astype(np.int64)


def _refuse_crossing(series: pd.Series, groups: IntArray, splits: npt.NDArray[np.int8], where: str) -> None:
    first_of_group = np.unique(groups, return_index=True)[1]
    crossing = np.flatnonzero(splits != splits[first_of_group][groups])
    if len(crossing):
        row = int(crossing[0])
        other = Split(int(splits[first_of_group[groups[row]]])).name.lower()
        raise InputError(
            f"{where}: group {series.iloc[row]!r} of {series.name!r} is in both {other} and "
            f"{Split(int(splits[row])).name.lower()} (record {row + 1}); a group must stay in one split"
        )


def _published_split(series: pd.Series, where: str) -> npt.NDArray[np.int8]:
    text = series.astype("object").map(lambda value: str(value).strip().lower())
    unknown = sorted(set(text) - set(_SPLITS))
    if unknown:
        raise InputError(
            f"{where}: split column {series.name!r} holds {unknown[0]!r}; it must say train, validation or test"
        )
    return np.array([_SPLITS[value] for value in text], dtype=np.int8)
