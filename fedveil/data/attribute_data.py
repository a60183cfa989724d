"""AttributeData: features x, sensitive attributes u by name, and a task label y, which may be absent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from fedveil.core.arrays import IntArray, digest
from fedveil.core.errors import InputError, nearest
from fedveil.data.attribute import Attribute


class Split(IntEnum):
    """What a record is used for: training, choosing between models, or reporting."""

    TRAIN = 0
    VALIDATION = 1
    TEST = 2


@dataclass(frozen=True, eq=False)
class AttributeData:
    """Records with features, sensitive attributes and, if there is a task, its label.

    Attributes:
        x: features, records first: (n, d) for tables, (n, channels, height, width) for images; float32.
        attributes: sensitive attributes u by name; records without a label are allowed.
        split: one `Split` per record.
        y: the task's label, or None.
        groups: whom each record belongs to (person, speaker, seller), or None; our own splits keep every group
            whole.
        feature_names: names of x's columns, for tables.
        name: where the data comes from.
        facts: further facts from the source, such as how many records were left out, which columns were dropped, or the
            leakage in bits if it is known.
        columns: for each feature, the table's column that it comes from, if the source records it: a column of text
            becomes several features.
        tasks: further labels that heads may learn from releases; neither games nor attackers see them.
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
                raise InputError(
                    f"{self.name}: {name!r} is a further task and also the target or a sensitive attribute; drop one"
                )
        if self.feature_names and len(self.feature_names) != self.x.shape[1]:
            raise InputError(
                f"{self.name}: {len(self.feature_names)} feature names for {self.x.shape[1]} features; name each one"
            )
        if self.columns and len(self.columns) != self.x.shape[1]:
            raise InputError(
                f"{self.name}: {len(self.columns)} columns for {self.x.shape[1]} features; give one for each"
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
        """Return one sensitive attribute; for a misspelt name the error suggests the nearest one."""
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
        """All labels that heads may learn, by name: the target, the further tasks, the sensitive attributes."""
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

    def digest(self) -> str:
        """Return a digest of the records, their splits, labels and attributes, by which results on them are known."""
        labels = [*([] if self.y is None else [self.y]), *(self.attributes[name] for name in sorted(self.attributes))]
        return digest(self.x, self.split, *(label.codes for label in labels))

    def without_labels(self) -> AttributeData:
        """Return the same records without the target; the labels of further tasks, which no game sees, remain."""
        return replace(self, y=None)
