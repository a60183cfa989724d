"""Data that an audit's classifiers are made from: a target, the attribute audited, and how the two are related."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from fedveil.core.errors import InputError
from fedveil.core.randomness import numpy_generator
from fedveil.data.attribute_data import AttributeData, Split

MOST_AUDITED = 10_000


@dataclass(frozen=True)
class AuditCase:
    """One data set with a target and an attribute.

    Attributes:
        name: what it is called.
        source, options: the data source and its options.
        target: y; also one of the source's further tasks.
        secret: s, which is audited.
        further: other attributes that classifiers may hide besides.
        half: whether limits are chosen by it ("calibration") or reported on it ("report").
        recipes: which classifiers are made, by the recipes' names.
        records: at most so many training records; validation has at most a third of that.
        merge: coarser values of s.
        seed: added to the experiment's.
        curve: which of the recipes are also audited with fewer and with more rows.
    """

    name: str
    source: str
    target: str
    secret: str
    half: Literal["calibration", "report"]
    recipes: list[str]
    options: dict[str, Any] = field(default_factory=dict)
    further: list[str] = field(default_factory=list)
    records: int = 6000
    merge: dict[str, str] = field(default_factory=dict)
    seed: int = 0
    curve: list[str] = field(default_factory=list)

    @property
    def secrets(self) -> tuple[str, ...]:
        """All attributes that classifiers may hide, the audited one first."""
        return (self.secret, *self.further)

    def load(self, seed: int) -> AttributeData:
        """Read the data, with the target asked for, s merged, and no more records than asked for."""
        from fedveil.data import find_source, load

        seed += self.seed
        offered = find_source(self.source).targets
        asked = self.target if not offered or self.target in offered else offered[0]
        data = load(self.source, target=asked, sensitive=list(self.secrets), seed=seed, **self.options)
        y, s = data.label(self.target), data.attribute(self.secret)
        if self.merge:
            s = s.merge(self.secret, self.merge)
        data = replace(data, y=y, attributes={**data.attributes, self.secret: s}, tasks={})
        known = y.known & np.logical_and.reduce([data.attribute(name).known for name in self.secrets])
        data = data.take(known)
        rng = numpy_generator(seed, "audit case")
        most = {Split.TRAIN: self.records, Split.VALIDATION: self.records // 3, Split.TEST: MOST_AUDITED}
        rows = np.concatenate([rng.permutation(data.rows(split))[:count] for split, count in most.items()])
        found = data.take(rows)  # test records stay shuffled: an audit of fewer takes the first of them
        if len(found.rows(Split.TEST)) < 200:
            raise InputError(f"case {self.name!r}: has fewer than 200 test records; take more")
        return found
