"""A data set on which curious classifiers are made: its target, its secret, and how large classifiers are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from fedveil.config import parts
from fedveil.core.errors import InputError, nearest

if TYPE_CHECKING:
    from fedveil.data import Attribute, AttributeData


@dataclass(frozen=True)
class CuriousCase:
    """What is classified, what is secretly told, and by which classifier.

    Attributes:
        source: a data source.
        target: y.
        secret: s.
        options: of the data source.
        merge: the secret's coarser values, each with the values that it stands for; others' records lack the secret.
        widths: of the classifier's layers; the paper's (or the tabular ones) if empty.
        epochs: passes over the training records.
        name: what the case is called.
    """

    source: str
    target: str
    secret: str
    options: dict[str, Any] = field(default_factory=dict)
    merge: dict[str, list[str]] = field(default_factory=dict)
    widths: list[int] = field(default_factory=list)
    epochs: int = 50
    name: str = ""
    told: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, told: Mapping[str, Any], where: str) -> CuriousCase:
        """Make a case of plain values."""
        made: CuriousCase = parts.make(cls, {"name": str(told.get("source")), **told, "told": dict(told)}, where)
        if made.epochs < 1:
            raise InputError(f"{where}.epochs: {made.epochs} is not allowed; it must be at least 1")
        if len(made.merge) == 1:
            raise InputError(f"{where}.merge: one value tells nothing; give at least two")
        return made

    def check(self, where: str) -> None:
        """Refuse a source, target or secret that there is not."""
        from fedveil.data import find_source

        found = find_source(self.source)
        for kind, name, offered in (("target", self.target, found.targets), ("secret", self.secret, found.attributes)):
            if offered and name not in offered:
                raise InputError(f"{where}: {self.source} has no {kind} {name!r}: {nearest(name, offered)}")

    def load(self, seed: int) -> AttributeData:
        """Load the records, the secret merged."""
        from fedveil.data import load

        data = load(self.source, target=self.target, sensitive=[self.secret], seed=seed, **self.options)
        return replace(data, attributes={self.secret: self._merged(data.attribute(self.secret))})

    def _merged(self, secret: Attribute) -> Attribute:
        if not self.merge:
            return secret
        value_of = {old: new for new, olds in self.merge.items() for old in olds}
        for old in value_of:
            if old not in secret.values:
                raise InputError(f"{self.source}: {secret.name} is never {old!r}: {nearest(old, secret.values)}")
        return secret.merge(secret.name, value_of)


def closing_notes(found: Mapping[str, Any]) -> list[str]:
    """Return the last notes of figures by case: each case's sizes, and what the paper says."""
    lines = [
        f"{name}: " + ", ".join(f"{key} {value}" for key, value in sizes.items() if value != []) + "."
        for name, sizes in found["cases"].items()
    ]
    return lines + [str(one["note"]) for one in found["paper"] if "note" in one]
