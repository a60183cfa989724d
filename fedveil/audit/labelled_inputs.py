"""Inputs for a vendor's model with the true labels beside them: from a table, an array, or a data source of ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from fedveil.audit.class_order import class_order
from fedveil.audit.models import Numbers, ScoringModel, scores_are_raw
from fedveil.audit.outputs import Outputs
from fedveil.audit.reading import in_order, labels_of
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
        groups: whose record it is, or None.
        told: what was taken as input and what was left out, in a sentence.
        ordered: whether y's values stand in the order in which a model is expected to score them.
    """

    x: Numbers
    y: Attribute
    secrets: Mapping[str, Attribute]
    groups: IntArray | None
    told: str
    ordered: bool = False


@dataclass(frozen=True)
class Wanted:
    """Which columns are labels and which are inputs.

    Attributes:
        target: the column of y.
        sensitive: the columns of s.
        features: the input columns in the model's order; none: every other numeric column.
        group: the column that says whose record it is; empty: records are on their own.
        bins: classes of a continuous sensitive attribute.
    """

    target: str
    sensitive: tuple[str, ...]
    features: tuple[str, ...] = ()
    group: str = ""
    bins: int = 3

    def labels(self, frame: pd.DataFrame, where: str | Path) -> dict[str, Any]:
        """Return y, secrets and groups out of a table."""
        y, secrets, groups = labels_of(frame, Path(where), self.target, self.sensitive, self.group or None, self.bins)
        return {"y": y, "secrets": secrets, "groups": groups}


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
    roles = [one_spelling(name) for name in (wanted.target, *wanted.sensitive, wanted.group) if name]
    for name in roles:
        if roles.count(name) > 1:
            raise InputError(
                f"{data}: {name!r} is named twice among target, sensitive and group; each has one part only"
            )
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
    return LabelledInputs(x, told=f"Input: {shape} numbers for each record.", **wanted.labels(frame, labels))


def outputs_of(
    model: ScoringModel, inputs: LabelledInputs, *, raw: bool = False, classes: Sequence[str] | None = None
) -> tuple[Outputs, list[str]]:
    """Score the records; return what is audited, and sentences on how the model was used.

    Args:
        model: the model.
        inputs: the records with their labels.
        raw: scores are raw in any case; unsaid they are probabilities where every row is a distribution, else raw.
        classes: the classes in the order of the model's scores; unsaid that of 0 … Y−1, or the data source's.
    """
    scores = model.scores(inputs.x, raw=raw)
    if classes is None and inputs.ordered and len(inputs.y.values) == scores.shape[1]:
        classes = inputs.y.values
    places = [str(place) for place in range(scores.shape[1])]
    y = in_order(inputs.y, class_order(places, inputs.y.values, classes, f"{model.path}", inputs.y.name))
    is_raw = raw or scores_are_raw(scores)
    kind = "raw scores" + " (--raw)" * raw if is_raw else "probabilities (every row sums to 1)"
    told = f"Output {model.gives.name!r} of {model.path.name}: {kind} of {_listed(y.values)}, in this order."
    return Outputs(scores, is_raw, y, inputs.secrets, inputs.groups), [inputs.told, told]


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
    return LabelledInputs(part.x, part.y, part.attributes, part.groups, told, ordered=True)


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
