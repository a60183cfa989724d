"""Inputs for a vendor's model with their true labels, and the model's outputs for them.

Inputs come from a table, an array, or one of fedveil's data sources.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from fedveil.audit.outputs import Outputs
from fedveil.audit.percent import refuse_percent
from fedveil.audit.reading import class_order, in_order, labels_of
from fedveil.audit.scoring_model import Numbers, ScoringModel, scores_are_raw
from fedveil.core.arrays import IntArray
from fedveil.core.errors import InputError, nearest
from fedveil.data.attribute import Attribute
from fedveil.data.attribute_data import Split
from fedveil.data.catalogue import available, find_source
from fedveil.data.csv_reading import one_spelling
from fedveil.data.encoding import nested_kind, numbers_of
from fedveil.data.tables import read_array, read_table, read_vectors, same_rows

_ARRAYS = (".npy", ".npz")


@dataclass(frozen=True, eq=False)
class LabelledInputs:
    """What a model is given, and what is true of it.

    Attributes:
        x: (n, …), one record per row.
        y: the target.
        secrets: sensitive attributes by name.
        groups: for each record, whose it is; or None.
        description: which columns are inputs and which were left out, in a sentence.
        ordered: whether y's values are in the order in which a model is expected to score them.
    """

    x: Numbers
    y: Attribute
    secrets: Mapping[str, Attribute]
    groups: IntArray | None
    description: str
    ordered: bool = False


@dataclass(frozen=True)
class Wanted:
    """Which columns are labels and which are inputs.

    Attributes:
        target: the column of y.
        sensitive: the columns of s.
        features: the input columns in the model's order; if empty, every other numeric column.
        group: the column that says whose record it is; if empty, every record is a different person's.
        bins: classes of a continuous sensitive attribute.
    """

    target: str
    sensitive: tuple[str, ...]
    features: tuple[str, ...] = ()
    group: str = ""
    bins: int = 3

    def labels(self, frame: pd.DataFrame, where: str | Path) -> dict[str, Any]:
        """Return y, secrets and groups from a table."""
        y, secrets, groups = labels_of(frame, Path(where), self.target, self.sensitive, self.group or None, self.bins)
        return {"y": y, "secrets": secrets, "groups": groups}


def read_inputs(
    data: str, wanted: Wanted, *, labels: Path | None = None, key: str = "", options: Sequence[str] = (), seed: int = 0
) -> LabelledInputs:
    """Read inputs and labels.

    Args:
        data: a table (CSV, Parquet) that holds both; an array (.npy, .npz) of inputs; or the name of a data source,
            whose test records are used.
        wanted: which columns.
        labels: for an array, the table of labels, row by row.
        key: which array of an .npz file.
        options: a source's options, each "name=value".
        seed: the seed of a source's split.
    """
    roles = [one_spelling(name) for name in (wanted.target, *wanted.sensitive, wanted.group) if name]
    for name in roles:
        if roles.count(name) > 1:
            raise InputError(
                f"{data}: {name!r} is named twice among target, sensitive and group; a column has only one role"
            )
    is_array = data.lower().endswith(_ARRAYS)
    if is_array and labels is None:
        raise InputError(f"{data}: holds only inputs; name the table of target and sensitive columns with --labels")
    if labels is not None and not is_array:
        raise InputError(f"--labels is for an array of inputs (.npy, .npz); {data} has its own labels")
    if key and not is_array:
        raise InputError(f"--key chooses an array of an .npz file; {data} is not one")
    if "." not in Path(data).name and not Path(data).exists():
        return _from_source(data, wanted, options, seed)
    if options:
        raise InputError(f"--option is for data sources by name ({', '.join(available())}); {data} is a file")
    if labels is None:
        return _from_table(data, wanted)
    if wanted.features:
        raise InputError("--features chooses columns of a table; an array is given to the model as a whole")
    x = read_array(data, key or None)
    frame = read_table(labels)
    same_rows({data: len(x), str(labels): len(frame)})
    shape = " × ".join(map(str, x.shape[1:]))
    return LabelledInputs(x, description=f"Input: {shape} numbers for each record.", **wanted.labels(frame, labels))


def outputs_of(
    model: ScoringModel,
    inputs: LabelledInputs,
    *,
    raw: bool = False,
    percent: bool = False,
    classes: Sequence[str] | None = None,
) -> tuple[Outputs, list[str]]:
    """Score the records; return the outputs to audit, and sentences about how the model was used.

    Args:
        model: the model.
        inputs: the records with their labels.
        raw: treat scores as raw in any case. By default they are probabilities if every row is a distribution.
        percent: scores are in per cent, 0 to 100.
        classes: the classes in the order of the model's scores. Default: 0 … Y−1, or the data source's order.
    """
    scores = model.scores(inputs.x, raw=raw, percent=percent)
    if classes is None and inputs.ordered and len(inputs.y.values) == scores.shape[1]:
        classes = inputs.y.values
    columns = [str(number) for number in range(scores.shape[1])]
    y = in_order(inputs.y, class_order(columns, inputs.y.values, classes, f"{model.path}", inputs.y.name))
    is_raw = raw or (not percent and scores_are_raw(scores))
    if is_raw and not raw:
        refuse_percent(scores, f"{model.path}")
    kind = "raw scores" + " (--raw)" * raw if is_raw else "probabilities (every row sums to 1)"
    kind += ", given in per cent" * percent
    description = f"Output {model.gives.name!r} of {model.path.name}: {kind} of {_listed(y.values)}, in this order."
    return Outputs(scores, is_raw, y, inputs.secrets, inputs.groups), [inputs.description, description]


def _from_table(data: str, wanted: Wanted) -> LabelledInputs:
    frame = read_table(data)
    labels = wanted.labels(frame, data)
    used = {one_spelling(name) for name in (wanted.target, *wanted.sensitive, wanted.group) if name}
    left_out = []
    if wanted.features:
        names = [one_spelling(name) for name in wanted.features]
        if one_spelling(wanted.target) in names:
            raise InputError(
                f"--features names the target {wanted.target!r}, which the model is to predict; leave it out"
            )
    else:
        others = [str(name) for name in frame.columns if name not in used]
        names = [name for name in others if _is_numeric(frame[name])]
        left_out = [name for name in others if name not in names]
        if not names:
            raise InputError(f"{data}: has no numeric column besides the labels; encode the inputs as numbers")
    x, _ = read_vectors(data, columns=names)
    description = f"Input, {len(names)} column{'s' * (len(names) != 1)}: {_listed(names)}."
    description += f" Left out, not numeric: {_listed(left_out)}." if left_out else ""
    return LabelledInputs(x, description=description, **labels)


def _from_source(name: str, wanted: Wanted, options: Sequence[str], seed: int) -> LabelledInputs:
    if name not in available():
        raise InputError(f"--data {name}: no such file, and no data source: {nearest(name, available())}")
    if wanted.features or wanted.group:
        raise InputError(f"--features and --group choose columns of a table; {name} is a data source; leave them out")
    data = find_source(name).load(wanted.target, wanted.sensitive, seed=seed, **dict(map(_option, options)))
    rows = data.rows(Split.TEST)
    if not len(rows):
        raise InputError(f"{name}: has no test records; give a table or an array")
    part = data.take(rows)
    if part.y is None:
        raise InputError(f"{name}: has no target {wanted.target!r}; choose another")
    description = f"Input: {len(part)} test records of {name}, {' × '.join(map(str, part.x.shape[1:]))} numbers each."
    return LabelledInputs(part.x, part.y, part.attributes, part.groups, description, ordered=True)


def _option(text: str) -> tuple[str, Any]:
    """Read name=value, with the value as YAML reads it.

    >>> _option("keep_sensitive=true")
    ('keep_sensitive', True)
    """
    name, sign, value = text.partition("=")
    try:
        parsed = yaml.safe_load(value)
    except yaml.YAMLError:
        sign = ""
    if not sign or not name.strip():
        raise InputError(f"--option {text!r}: write NAME=VALUE, as in keep_sensitive=true")
    return name.strip(), parsed


def _is_numeric(series: pd.Series) -> bool:
    return series.dtype.kind not in "mM" and nested_kind(series) is None and numbers_of(series) is not None


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:8]) + f", … ({len(names)} in total)" * (len(names) > 8)
