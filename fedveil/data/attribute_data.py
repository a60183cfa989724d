"""AttributeData: features x, a task label y that may be absent, sensitive attributes u by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from fedveil.core.arrays import IntArray
from fedveil.core.errors import InputError, nearest
from fedveil.core.randomness import numpy_generator
from fedveil.data.attribute import Attribute


class Split(IntEnum):
    """Where a record belongs: trained on, selected by, or reported on."""

    TRAIN = 0
    VALIDATION = 1
    TEST = 2


@dataclass(frozen=True, eq=False)
class AttributeData:
    """Records with features, sensitive attributes and, where there is a task, its label.

    Attributes:
        x: features, records first: (n, d) for tables, (n, channels, height, width) for images; float32.
        attributes: sensitive attributes u by name; records without a label are allowed.
        split: one `Split` per record.
        y: the task's label, or None.
        groups: who a record belongs to (person, speaker, seller), or None; a group never crosses splits
            that we make ourselves.
        feature_names: names of x's columns, for tables.
        name: where the data comes from.
        facts: what the source knows besides: records left out, columns dropped, a known leakage in bits.
        columns: the table's column that each feature comes from, where the source tells: a text column becomes several.
        tasks: further labels that heads may learn from releases; neither games nor attackers are given them.
    """

    x: npt.NDArray[np.float32]
    attributes: Mapping[str, Attribute]
    split: npt.NDArray[np.int8]
    y: Attribute | None = None
    groups: IntArray | None = None
    feature_names: tuple[str, ...] = ()
    name: str = "data"
    facts: Mapping[str, object] = field(default_factory=dict)
    columns: tuple[str, ...] = ()
    tasks: Mapping[str, Attribute] = field(default_factory=dict)

    def __post_init__(self) -> None:
        columns: dict[str, int] = {f"attribute {name!r}": len(a) for name, a in self.attributes.items()}
        columns |= {f"task {name!r}": len(label) for name, label in self.tasks.items()}
        columns["split"] = len(self.split)
        if self.y is not None:
            columns["y"] = len(self.y)
        if self.groups is not None:
            columns["groups"] = len(self.groups)
        for column, length in columns.items():
            if length != len(self.x):
                raise InputError(
                    f"{self.name}: {column} has {length} records, x has {len(self.x)}; they must match row by row"
                )
        if self.y is not None and self.y.name in self.attributes:
            raise InputError(
                f"{self.name}: {self.y.name!r} is both target and sensitive attribute; choose another target"
            )
        for name in self.tasks:
            if name in self.attributes or (self.y is not None and name == self.y.name):
                raise InputError(f"{self.name}: {name!r} is a further task, and target or sensitive attribute, too")
        if self.feature_names and len(self.feature_names) != self.x.shape[1]:
            raise InputError(f"{self.name}: {len(self.feature_names)} feature names for {self.x.shape[1]} features")
        if self.columns and len(self.columns) != self.x.shape[1]:
            raise InputError(
                f"{self.name}: {len(self.columns)} columns for {self.x.shape[1]} features; name one for each"
            )
        if not np.isfinite(self.x).all():
            raise InputError(f"{self.name}: x holds NaN or infinite values; fill or remove them")

    def __len__(self) -> int:
        return len(self.x)

    def __repr__(self) -> str:
        target = f", target={self.y.name!r}" if self.y else ""
        shape, sensitive = self.x.shape[1:], list(self.attributes)
        return f"AttributeData({self.name!r}, n={len(self)}, x={shape}, sensitive={sensitive}{target})"

    def attribute(self, name: str) -> Attribute:
        """Return one sensitive attribute; a misspelt name is answered with the nearest."""
        if name not in self.attributes:
            raise InputError(f"{self.name}: no sensitive attribute {name!r}: {nearest(name, self.attributes)}")
        return self.attributes[name]

    def label(self, task: str) -> Attribute:
        """Return what a task predicts: the target, a further task's label, or one of the sensitive attributes."""
        labels = self.labels
        if task not in labels:
            raise InputError(f"no task {task!r} in {self.name}: {nearest(task, labels)}")
        return labels[task]

    @property
    def labels(self) -> dict[str, Attribute]:
        """All that heads may learn, by name: the target, the further tasks, the sensitive attributes."""
        return {**({self.y.name: self.y} if self.y else {}), **self.tasks, **self.attributes}

    def rows(self, split: Split) -> IntArray:
        """Return the indices of a split's records."""
        return np.flatnonzero(self.split == split)

    def take(self, rows: IntArray | npt.NDArray[np.bool_]) -> AttributeData:
        """Return some of the records."""
        return replace(
            self,
            x=self.x[rows],
            attributes={name: attribute.take(rows) for name, attribute in self.attributes.items()},
            split=self.split[rows],
            y=None if self.y is None else self.y.take(rows),
            groups=None if self.groups is None else self.groups[rows],
            tasks={name: label.take(rows) for name, label in self.tasks.items()},
        )

    def without_labels(self) -> AttributeData:
        """Return the same records without the target; further tasks' labels, which no game sees, stay."""
        return replace(self, y=None)


def random_part(n: int, limit: int | None, seed: int, name: str) -> IntArray:
    """Return the rows of a random part of at most `limit` records, in their order; of all where it is None."""
    if limit is not None and limit < 1:
        raise InputError(f"{name}: limit must be at least 1, got {limit}")
    if limit is None or limit >= n:
        return np.arange(n)
    return np.sort(numpy_generator(seed, name, "limit").choice(n, size=limit, replace=False))


def random_split(
    n: int,
    *,
    seed: int,
    validation: float = 0.1,
    test: float = 0.2,
    strata: IntArray | None = None,
    groups: IntArray | None = None,
) -> npt.NDArray[np.int8]:
    """Split n records at random; groups stay whole, strata keep their shares.

    Within each stratum the shuffled units are dealt out in proportion, so that a stratum of at least three
    units stands in all three splits. A group belongs to the stratum of most of its records: where strata vary
    within groups, a value that is nowhere in the majority may be missing from a split, and shares are only
    as even as the groups' sizes allow.
    """
    if not (validation >= 0 and test >= 0 and validation + test < 1):
        raise InputError(
            f"split: validation {validation} and test {test} must be at least 0 and leave something to train on"
        )
    rng = numpy_generator(seed, "split")
    unit_of_row = np.arange(n) if groups is None else np.unique(groups, return_inverse=True)[1]
    units = int(unit_of_row.max()) + 1 if n else 0
    stratum_of_unit = np.zeros(units, dtype=np.int64)
    if strata is not None and n:
        found, stratum_of_row = np.unique(strata, return_inverse=True)
        if groups is None:
            stratum_of_unit = stratum_of_row  # no votes to count: the table below grows with units × strata
        else:
            votes = np.zeros((units, len(found)), dtype=np.int32)
            np.add.at(votes, (unit_of_row, stratum_of_row), 1)
            stratum_of_unit = votes.argmax(axis=1)
    split_of_unit = np.full(units, Split.TRAIN, dtype=np.int8)
    for stratum in np.unique(stratum_of_unit):
        members = rng.permutation(np.flatnonzero(stratum_of_unit == stratum))
        n_test = _share(len(members), test)
        n_validation = _share(len(members), validation)
        split_of_unit[members[:n_test]] = Split.TEST
        split_of_unit[members[n_test : n_test + n_validation]] = Split.VALIDATION
    return split_of_unit[unit_of_row]


def _share(units: int, fraction: float) -> int:
    """Round a share of some units, but leave none of three splits empty where there is enough."""
    if fraction == 0:
        return 0
    return max(round(units * fraction), 1 if units >= 3 else 0)
