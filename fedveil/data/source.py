"""A data source: what it holds, where it is published, how it becomes `AttributeData`."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from fedveil.core.errors import InputError, nearest
from fedveil.data.attribute_data import AttributeData
from fedveil.data.checks import checked


@dataclass(frozen=True)
class PublishedFile:
    """A file as its publisher serves it.

    Attributes:
        name: its name in a folder.
        url: its published address.
        hash: "sha256:…" or "md5:…" of the published file; downloads are checked against it. Empty where none is stated.
    """

    name: str
    url: str
    hash: str


@dataclass(frozen=True)
class PackagedCopy:
    """A copy that an installed package carries among its files; the package is never imported.

    Attributes:
        distribution: the package's name.
        files: names by which the source knows them → paths inside the distribution.
        complete: whether it is the whole data set.
    """

    distribution: str
    files: Mapping[str, str]
    complete: bool = True


class Source(ABC):
    """One data set, or one way to make data.

    Subclasses state the facts below and implement `read`. Third parties register theirs under the
    entry-point group "fedveil.data".
    """

    name: ClassVar[str]
    description: ClassVar[str]
    licence: ClassVar[str] = ""
    citation: ClassVar[str] = ""
    attributes: ClassVar[tuple[str, ...]] = ()
    """Sensitive attributes on offer; empty: any column."""
    targets: ClassVar[tuple[str, ...]] = ()
    """Task labels on offer; empty: any column."""
    folder: ClassVar[str] = ""
    """Its folder inside FEDVEIL_DATA."""
    files: ClassVar[tuple[PublishedFile, ...]] = ()
    """What it is made of; empty: nothing to fetch."""
    unpacked: ClassVar[tuple[str, ...]] = ()
    """Files that serve in its folder in place of a published archive; others may lie beside them.

    A pattern ("**/*.jpg") stands for any file that it matches, the least deep first.
    """
    packaged: ClassVar[PackagedCopy | None] = None

    def load(self, target: str | None, sensitive: Sequence[str], *, seed: int = 0, **options: Any) -> AttributeData:
        """Read the data with a target (or none) and at least one sensitive attribute, and check it."""
        if not sensitive:
            choices = f": {', '.join(self.attributes)}" if self.attributes else ", any of its columns"
            raise InputError(f"{self.name}: name at least one sensitive attribute{choices}")
        for kind, asked, offered in (
            ("sensitive attribute", sensitive, self.attributes),
            ("target", [target] if target is not None else [], self.targets),
        ):
            for name in asked:
                if offered and name not in offered:
                    raise InputError(f"{self.name}: no {kind} {name!r}: {nearest(name, offered)}")
        known = set(inspect.signature(self.read).parameters) - {"target", "sensitive", "seed"}
        for option in options:
            if option not in known:
                raise InputError(f"{self.name}: no option {option!r}: {nearest(option, sorted(known))}")
        return checked(self.read(target=target, sensitive=tuple(dict.fromkeys(sensitive)), seed=seed, **options))

    @abstractmethod
    def read(self, *args: Any, **kwargs: Any) -> AttributeData:
        """Read the data; takes `target`, `sensitive` and `seed` by name, and options with defaults."""
