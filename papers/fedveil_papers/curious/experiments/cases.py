"""Data sets on which curious classifiers are trained and judged: target, secret, and the size of the classifiers."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from fedveil.config import parts
from fedveil.core.errors import InputError, nearest
from fedveil.data import Attribute, AttributeData, find_source, load
from fedveil.data.locate import locate
from fedveil_papers.curious.experiments.figures import RunFigure
from fedveil_papers.rows import PaperFigures, Row, notes_of


def locate_sources(names: Iterable[str]) -> None:
    """Find the files of data sources, or download them; raise `InputError` with what to do if that fails."""
    for name in dict.fromkeys(names):
        locate(find_source(name))


def load_once(
    source: str, *, target: str | None, sensitive: Sequence[str], options: Mapping[str, Any], seed: int
) -> AttributeData:
    """Load a data source; the last one loaded stays in memory, since classifiers on the same data follow each other."""
    folder = os.environ.get("FEDVEIL_DATA")
    return _load(source, target, tuple(sensitive), json.dumps(options, sort_keys=True), seed, folder)


@lru_cache(maxsize=1)
def _load(
    source: str, target: str | None, sensitive: tuple[str, ...], options: str, seed: int, folder: str | None
) -> AttributeData:
    return load(source, target=target, sensitive=sensitive, seed=seed, **json.loads(options))


@dataclass(frozen=True)
class CuriousCase:
    """What is classified, which secret the outputs carry, and which classifier is used.

    Attributes:
        source: a data source.
        target: y.
        secret: s.
        options: options of the data source.
        merge: coarser values of the secret, each with the values that it replaces; records with other values lack it.
        widths: widths of the classifier's layers; default: the paper's on images, 128-64 on tables.
        epochs: passes over the training records.
        name: what the case is called; default: the source.
        settings: all of these as the preset states them.
    """

    source: str
    target: str
    secret: str
    options: dict[str, Any] = field(default_factory=dict)
    merge: dict[str, list[str]] = field(default_factory=dict)
    widths: list[int] = field(default_factory=list)
    epochs: int = 50
    name: str = ""
    settings: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, settings: Mapping[str, Any], where: str) -> CuriousCase:
        """Make a case from a preset's values."""
        values = {"name": str(settings.get("source")), **settings, "settings": dict(settings)}
        case: CuriousCase = parts.make(cls, values, where)
        if case.epochs < 1:
            raise InputError(f"{where}.epochs: {case.epochs} is not allowed; it must be at least 1")
        if len(case.merge) == 1:
            raise InputError(f"{where}.merge: a single value carries no information; give at least two")
        return case

    def check(self, where: str) -> None:
        """Refuse a source, target or secret that does not exist."""
        source = find_source(self.source)
        for kind, name, offered in (
            ("target", self.target, source.targets),
            ("secret", self.secret, source.attributes),
        ):
            if offered and name not in offered:
                raise InputError(f"{where}: {self.source} has no {kind} {name!r}: {nearest(name, offered)}")

    def load(self, seed: int) -> AttributeData:
        """Load the records, with the secret's values merged."""
        data = load_once(self.source, target=self.target, sensitive=[self.secret], options=self.options, seed=seed)
        return replace(data, attributes={self.secret: self._merged(data.attribute(self.secret))})

    def _merged(self, secret: Attribute) -> Attribute:
        if not self.merge:
            return secret
        value_of = {old: new for new, olds in self.merge.items() for old in olds}
        for old in value_of:
            if old not in secret.values:
                raise InputError(f"{self.source}: {secret.name} is never {old!r}: {nearest(old, secret.values)}")
        return secret.merge(secret.name, value_of)


@dataclass(frozen=True, kw_only=True)
class CaseFigures:
    """A classifier's figures on test records, as `fedveil_papers.curious.measuring.Measured` states them.

    Attributes:
        honesty: δ_y, the accuracy on y.
        curiosity: δ_s, the accuracy of the maker's attack on s.
        prior: the share of the most frequent value of s.
        attacker: the strongest attacker retrained on the outputs.
        retrained, retrained_accuracy: its balanced accuracy and its accuracy.
        bits: the information about s in the outputs, as retrained attackers estimate it.
        entropy: mean entropy of the outputs, in bits.
    """

    honesty: RunFigure
    curiosity: RunFigure
    prior: RunFigure
    attacker: str
    retrained: RunFigure
    retrained_accuracy: RunFigure
    bits: RunFigure
    entropy: float

    def as_rows(
        self, method: str, strength: float | None, case: CuriousCase, seeds: Sequence[int], more: Mapping[str, Any]
    ) -> list[Row]:
        """Return two common rows: what the maker's attack reads, and what the strongest retrained attacker reads."""
        utility = {"accuracy": self.honesty.in_row}
        more = {"case": case.name, **more, "entropy": self.entropy}
        by_maker = {"accuracy": self.curiosity.in_row, "prior": self.prior.in_row}
        retrained = {
            "balanced_accuracy": self.retrained.in_row,
            "accuracy": self.retrained_accuracy.in_row,
            "mutual_information_bits": self.bits.in_row,
            "prior": self.prior.in_row,
        }
        maker = Row(method, strength, case.target, case.secret, "maker", seeds, utility, by_maker, more=more)
        named = {**more, "attacker_name": self.attacker}
        return [maker, replace(maker, attacker="retrained", leakage=retrained, more=named)]


def attackers_note(most: int, draws: int, fresh: bool) -> str:
    """State how retrained attackers were trained and how their intervals were computed."""
    records = f"at most {most} records of each split" if most else "all records"
    looks = ", also by attackers that learned from test records." if fresh else "."
    return f"attackers get {records}. Intervals are at 95%; those of retrained attackers use {draws} draws{looks}"


def closing_notes(cases: Sequence[CuriousCase], paper: PaperFigures) -> list[str]:
    """Return the last notes: each case's sizes, and the paper's remarks."""
    lines = []
    for case in cases:
        sizes = {"epochs": case.epochs, "widths": case.widths, **case.options}
        lines.append(f"{case.name}: {', '.join(f'{name} {value}' for name, value in sizes.items() if value != [])}.")
    return lines + notes_of(paper)
