"""Inputs for a vendor's model with the true labels beside them: from a table, an array, or a data source of ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

from fedveil.audit.models import Numbers, ScoringModel, scores_are_raw
from fedveil.audit.outputs import Outputs
from fedveil.data.attribute import Attribute, IntArray
from fedveil.data.attribute_data import Split
from fedveil.data.catalogue import available, find_source
from fedveil.data.csv_reading import one_spelling
from fedveil.data.encoding import nested_kind, numbers_of
from fedveil.errors import InputError, nearest
from fedveil.tables import column, read_array, read_table, read_vectors, same_rows

_ARRAYS = (".npy", ".npz")


@dataclass(frozen=True, eq=False)
class LabelledInputs:
    """What a model is given, and what is true of it.

    Attributes:
        x: (n, …), one record per row.
        y: the target.
        secrets: sensitive attributes by name.
        groups: whose record it is, or None.
        told: what was taken as input and what was left out, in a sentence.
    """

    x: Numbers
    y: Attribute
    secrets: Mapping[str, Attribute]
    groups: IntArray | None
    told: str


@dataclass(frozen=True)
class Wanted:
    """Which columns are labels and which are inputs.

    Attributes:
        target: the column of y.
        sensitive: the columns of s.
        features: the input columns in the model's order; none: every other numeric column.
        group: the column that says whose record it is; empty: records are on their own.
        bins: classes of a continuous attribute.
    """

    target: str
    sensitive: tuple[str, ...]
    features: tuple[str, ...] = ()
    group: str = ""
    bins: int = 3

    def labels(self, frame: pd.DataFrame, where: str) -> dict[str, Any]:
        """Return y, secrets and groups, out of a table."""
        secrets = {
            name: Attribute.from_column(name, column(frame, name, where), self.bins)
            for name in map(one_spelling, self.sensitive)
        }
        target = one_spelling(self.target)
        if target in secrets:
            raise InputError(f"{where}: {target!r} is both target and sensitive attribute; choose another")
        groups = None
        if self.group:
            groups = pd.factorize(column(frame, self.group, where), use_na_sentinel=False)[0].astype(np.int64)
        return {"y": Attribute.from_column(target, column(frame, target, where)), "secrets": secrets, "groups": groups}


def read_inputs(
    data: str, wanted: Wanted, *, labels: Path | None = None, key: str = "", options: Sequence[str] = (), seed: int = 0
) -> LabelledInputs:
    """Read inputs and labels.

    Args:
        data: a table (CSV, Parquet) that holds both; an array (.npy, .npz) of inputs; or the name of a data source, of
            which the test records are taken.
        wanted: which columns.
        labels: the table of labels beside an array, row by row.
        key: which array of an .npz file.
        options: a source's options, each "name=value".
        seed: of a source's split.
    """
    is_array = data.lower().endswith(_ARRAYS)
    if is_array and labels is None:
        raise InputError(f"{data}: holds inputs only; name the table of target and sensitive columns by --labels")
    if labels is not None and not is_array:
        raise InputError(f"--labels goes with an array of inputs (.npy, .npz); {data} brings its own labels")
    if key and not is_array:
        raise InputError(f"--key chooses an array of an .npz file; {data} is none")
    if "." not in Path(data).name and not Path(data).exists():
        return _from_source(data, wanted, options, seed)
    if options:
        raise InputError(f"--option is for data sources by name ({', '.join(available())}); {data} is a file")
    if labels is None:
        return _from_table(data, wanted)
    if wanted.features:
        raise InputError("--features chooses columns of a table; an array is given to the model whole")
    x = read_array(data, key or None)
    frame = read_table(labels)
    same_rows({data: len(x), str(labels): len(frame)})
    shape = " × ".join(map(str, x.shape[1:]))
    return LabelledInputs(x, told=f"Input: {shape} numbers for each record.", **wanted.labels(frame, str(labels)))


def outputs_of(model: ScoringModel, inputs: LabelledInputs, *, raw: bool = False) -> tuple[Outputs, list[str]]:
    """Score the records; return what is audited, and sentences on how the model was used.

    Scores are probabilities where every row is a distribution, else raw; `raw` says that they are raw in any case.
    """
    scores = model.scores(inputs.x, raw=raw)
    values = inputs.y.values
    if scores.shape[1] != len(values):
        shown = ", ".join(values[:6]) + " …" * (len(values) > 6)
        raise InputError(
            f"{model.path}: gives {scores.shape[1]} scores for each record, target {inputs.y.name!r} has {len(values)} "
            f"values ({shown}); choose another --target or --output"
        )
    is_raw = raw or scores_are_raw(scores)
    kind = "raw scores" + " (--raw)" * raw if is_raw else "probabilities (every row sums to 1)"
    order = ", ".join(values)
    told = [inputs.told, f"Output {model.gives.name!r} of {model.path.name}: {kind}, taken in the order {order}."]
    return Outputs(scores, is_raw, inputs.y, inputs.secrets, inputs.groups), told


def _from_table(data: str, wanted: Wanted) -> LabelledInputs:
    frame = read_table(data)
    labels = wanted.labels(frame, data)
    used = {one_spelling(name) for name in (wanted.target, *wanted.sensitive, wanted.group) if name}
    left = []
    if wanted.features:
        names = [one_spelling(name) for name in wanted.features]
        if one_spelling(wanted.target) in names:
            raise InputError(
                f"--features names the target {wanted.target!r}, which the model is to predict; leave it out"
            )
    else:
        others = [str(name) for name in frame.columns if name not in used]
        names = [name for name in others if _is_numeric(frame[name])]
        left = [name for name in others if name not in names]
        if not names:
            raise InputError(f"{data}: no numeric column is left as input beside the labels; encode them as numbers")
    x, _ = read_vectors(data, columns=names)
    told = f"Input, {len(names)} column{'s' * (len(names) != 1)}: {_listed(names)}."
    told += f" Left out, not numeric: {_listed(left)}." if left else ""
    return LabelledInputs(x, told=told, **labels)


def _from_source(name: str, wanted: Wanted, options: Sequence[str], seed: int) -> LabelledInputs:
    if name not in available():
        raise InputError(f"--data {name}: no such file, and no data source: {nearest(name, available())}")
    if wanted.features or wanted.group:
        raise InputError(f"--features and --group choose columns of a table; {name} knows its own")
    data = find_source(name).load(wanted.target, wanted.sensitive, seed=seed, **dict(map(_option, options)))
    rows = data.rows(Split.TEST)
    if not len(rows):
        raise InputError(f"{name}: has no test records; give a table or an array")
    part = data.take(rows)
    if part.y is None:
        raise InputError(f"{name}: brings no target {wanted.target!r}; choose another")
    told = f"Input: {len(part)} test records of {name}, {' × '.join(map(str, part.x.shape[1:]))} numbers each."
    return LabelledInputs(part.x, part.y, part.attributes, part.groups, told)


def _option(text: str) -> tuple[str, Any]:
    """Read name=value, the value as YAML reads it.

    >>> _option("keep_sensitive=true")
    ('keep_sensitive', True)
    """
    name, sign, value = text.partition("=")
    try:
        read = yaml.safe_load(value)
    except yaml.YAMLError:
        sign = ""
    if not sign or not name.strip():
        raise InputError(f"--option {text!r}: write NAME=VALUE, as in keep_sensitive=true")
    return name.strip(), read


def _is_numeric(series: pd.Series) -> bool:
    return series.dtype.kind not in "mM" and nested_kind(series) is None and numbers_of(series) is not None


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:8]) + f", … ({len(names)} in all)" * (len(names) > 8)
