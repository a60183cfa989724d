"""A data source: what it offers, where it is published, and how it becomes `AttributeData` that passes our checks."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from fedveil.core.errors import InputError, nearest
from fedveil.data.attribute import Attribute
from fedveil.data.attribute_data import AttributeData, Split


@dataclass(frozen=True)
class PublishedFile:
    """A file as its publisher serves it.

    Attributes:
        name: its name in a folder.
        url: its published address.
        hash: "sha256:…" or "md5:…" of the published file, which downloads must match; empty if none is published.
    """

    name: str
    url: str
    hash: str


@dataclass(frozen=True)
class PackagedCopy:
    """A copy of the data among the files of an installed package, which is never imported.

    Attributes:
        distribution: the package's name.
        files: for each name by which the source knows a file, its path inside the distribution.
        complete: whether it is the whole data set.
    """

    distribution: str
    files: Mapping[str, str]
    complete: bool = True


class Source(ABC):
    """One data set, or one way to generate data.

    Subclasses state the facts below and implement `read`. Other packages register their sources in the
    entry-point group "fedveil.data".
    """

    name: ClassVar[str]
    description: ClassVar[str]
    licence: ClassVar[str] = ""
    citation: ClassVar[str] = ""
    attributes: ClassVar[tuple[str, ...]] = ()
    """Its sensitive attributes; if empty, any column can be one."""
    targets: ClassVar[tuple[str, ...]] = ()
    """Its task labels; if empty, any column can be one."""
    folder: ClassVar[str] = ""
    """Its folder inside FEDVEIL_DATA."""
    files: ClassVar[tuple[PublishedFile, ...]] = ()
    """Its files; empty if there is nothing to fetch."""
    unpacked: ClassVar[tuple[str, ...]] = ()
    """Files in its folder that can replace a published archive; the folder may hold other files as well.

    A pattern ("**/*.jpg") stands for any file that it matches, the least deeply nested first.
    """
    packaged: ClassVar[PackagedCopy | None] = None

    def __repr__(self) -> str:
        offered = (
            f"sensitive={list(self.attributes)}, targets={list(self.targets)}" if self.attributes else "any columns"
        )
        return f"{type(self).__name__}({self.name!r}, {offered})"

    def load(self, target: str | None, sensitive: Sequence[str], *, seed: int = 0, **options: Any) -> AttributeData:
        """Read the data with a target (or None) and at least one sensitive attribute, and check it."""
        if not sensitive:
            choices = f": {', '.join(self.attributes)}" if self.attributes else ", any of its columns"
            raise InputError(f"{self.name}: name at least one sensitive attribute{choices}")
        for kind, names, offered in (
            ("sensitive attribute", sensitive, self.attributes),
            ("target", [target] if target is not None else [], self.targets),
        ):
            for name in names:
                if offered and name not in offered:
                    raise InputError(f"{self.name}: no {kind} {name!r}: {nearest(name, offered)}")
        accepted = set(inspect.signature(self.read).parameters) - {"target", "sensitive", "seed"}
        for option in options:
            if option not in accepted:
                raise InputError(f"{self.name}: no option {option!r}: {nearest(option, sorted(accepted))}")
        return checked(self.read(target=target, sensitive=tuple(dict.fromkeys(sensitive)), seed=seed, **options))

    @abstractmethod
    def read(self, *args: Any, **kwargs: Any) -> AttributeData:
        """Read the data; takes `target`, `sensitive` and `seed` by name, and options with defaults."""


def checked(data: AttributeData) -> AttributeData:
    """Return the data, or raise an error that says why nothing can be trained or attacked on it.

    It refuses an attribute (or target) with a single value, since there is nothing to infer; an attribute and a
    target that determine each other in every record, since hiding one would lose the other; and a split without
    records of some value, since that value could not be learned or measured there.
    """
    labels = [("attribute", attribute) for attribute in data.attributes.values()]
    if data.y is not None:
        labels.append(("target", data.y))
    labels += [("task", label) for label in data.tasks.values()]
    for split in (Split.TRAIN, Split.TEST):
        if not len(data.rows(split)):
            raise InputError(f"{data.name}: there are no {split.name.lower()} records; change the split")
    for kind, label in labels:
        _refuse_single_value(kind, label, data.name)
        _refuse_missing_class(kind, label, data)
        if kind == "attribute" and data.y is not None:
            _refuse_equal(label, data.y, data.name)
    return data


def _refuse_single_value(kind: str, label: Attribute, where: str) -> None:
    seen = [value for value, count in zip(label.values, label.counts, strict=True) if count]
    if len(seen) < 2:
        what = f"only the value {seen[0]!r}" if seen else "no value at all"
        raise InputError(f"{where}: {kind} {label.name!r} has {what}; at least two are needed")


def _refuse_missing_class(kind: str, label: Attribute, data: AttributeData) -> None:
    for split in Split:
        rows = data.rows(split)
        if not len(rows):
            continue
        counts = label.take(rows).counts
        if (counts == 0).any():
            absent = int(np.argmin(counts))
            raise InputError(
                f"{data.name}: {kind} {label.name!r} has no record of value {label.values[absent]!r} in the "
                f"{split.name.lower()} split ({label.counts[absent]} in total); merge or leave out rare values, "
                "or split otherwise"
            )


def _refuse_equal(attribute: Attribute, target: Attribute, where: str) -> None:
    both = attribute.known & target.known
    if not both.any():
        return
    u, y = attribute.codes[both], target.codes[both]
    pairs = len(np.unique(u * len(target.values) + y))
    if pairs == len(np.unique(u)) == len(np.unique(y)):
        raise InputError(
            f"{where}: attribute {attribute.name!r} and target {target.name!r} determine each other in every record; "
            "choose another target"
        )
