"""Policy: what a person allows to be shown or sent of the records on a device or at a site.

A policy names the attributes to hide and the shield that hides them. At a Flower site it also names the figures that
may leave beside an update, and limits what may be spent. `fedveil.config.read_policy` reads a policy from a TOML file,
and `fedveil.config.shield_for` makes its shield.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedveil.core.errors import InputError, nearest

RECOMMENDED = "recommended"
"""The shield of a policy that names none: records are changed by a map that does not read the true value."""

COUNT = "num-examples"
"""How many records an update was learned from: the weight that a Flower server gives the update."""

MOD_PREFIX = "fedveil-"
"""The prefix of figures that the Flower mod itself sends."""


@dataclass(frozen=True)
class Budget:
    """The most that a site may spend in total; None means no limit of that kind.

    Attributes:
        messages: how many updates may leave.
        evaluations: how many replies with nothing but figures may leave; None means any number while updates may leave.
        epsilon, delta: of all updates together.
    """

    messages: int | None = None
    evaluations: int | None = None
    epsilon: float | None = None
    delta: float = 0.0


@dataclass(frozen=True)
class ShieldChoice:
    """A shield by its registered name, with settings."""

    kind: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        settings = ", ".join(f"{name} = {value!r}" for name, value in self.settings.items())
        return f"{self.kind} ({settings})" if settings else self.kind


@dataclass(frozen=True)
class Policy:
    """What one person has chosen.

    Attributes:
        hide: a level γ in [0, 1] for each attribute that is hidden, together at most 1; for shields that hide several
            attributes by levels, `recommended` and `recup`.
        shield: a registered name, or a mapping of `kind` and the shield's settings, or a list of these, which is a
            chain. `recommended` has one setting, `change`: the mean relative change of a record.
        zoo: the file of each attribute's zoo, for shields that need one (`recup`).
        own: at a Flower site, the most frequent value of each hidden attribute among the site's records, as its zoo
            names it; it never leaves. Elsewhere a device knows its records.
        metrics: at a Flower site, the figures that may leave beside an update.
        tell: at a Flower site, what the mod may report about itself: "damage", "spent".
        ledger: at a Flower site, the ledger's file.
        budget: at a Flower site, the most that may be spent in total.
        path, digest: the file that it was read from, and the SHA-256 of its content.

    >>> Policy(hide={"sex": 1.0}).chosen
    (ShieldChoice(kind='recommended', settings={}),)
    """

    hide: Mapping[str, float] = field(default_factory=dict)
    shield: str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]] = RECOMMENDED
    zoo: Mapping[str, str | Path] = field(default_factory=dict)
    own: Mapping[str, str] = field(default_factory=dict)
    metrics: tuple[str, ...] = (COUNT,)
    tell: frozenset[str] = frozenset()
    ledger: str | Path = "ledger.jsonl"
    budget: Budget = Budget()
    path: Path | None = field(default=None, compare=False, repr=False)
    digest: str = field(default="", compare=False, repr=False)

    def __post_init__(self) -> None:
        check_levels(self.hide, self.where)
        if any(choice.kind == RECOMMENDED for choice in self.chosen) and not self.hide:
            raise InputError(
                f"{self.where}: hide: names no attribute; write a table [hide] with a line such as: sex = 1.0"
            )
        for table, names in (("zoo", self.zoo), ("own", self.own)):
            for name in names:
                if self.hide and name not in self.hide:
                    raise InputError(
                        f"{self.where}: {table}.{name}: is not hidden by this policy: {nearest(name, self.hide)}"
                    )

    def __hash__(self) -> int:
        return hash((tuple(sorted(self.hide.items())), self.metrics, self.tell, str(self.ledger)))

    @property
    def protection(self) -> str:
        """What the policy hides and by what, as text: equal for policies that protect alike, in every process."""
        hide = {name: float(level) for name, level in sorted(self.hide.items())}
        zoos = {name: str(file) for name, file in sorted(self.zoo.items())}
        return f"hide {hide} by {self.chosen} with zoos {zoos}"

    @property
    def where(self) -> str:
        """How messages refer to this policy: its file, if it has one."""
        return "policy" if self.path is None else str(self.path)

    @property
    def chosen(self) -> tuple[ShieldChoice, ...]:
        """The shield, or the members of a chain in order."""
        listed = [self.shield] if isinstance(self.shield, str | Mapping) else list(self.shield)
        if not listed:
            raise InputError(
                f'{self.where}: shield: the list is empty; write {{kind = "none"}} if nothing is to be shielded'
            )
        return tuple(self._choice(member) for member in listed)

    def _choice(self, member: str | Mapping[str, Any]) -> ShieldChoice:
        if isinstance(member, str):
            return ShieldChoice(member)
        if not isinstance(member, Mapping) or not isinstance(member.get("kind"), str):
            raise InputError(f'{self.where}: shield.kind: is missing; name a shield, such as kind = "dp-gaussian"')
        return ShieldChoice(member["kind"], {name: value for name, value in member.items() if name != "kind"})

    def check(self, attributes: Sequence[str]) -> None:
        """Refuse a policy that hides an attribute which is not among these."""
        check_attributes(self.hide, attributes, self.where)


def check_levels(levels: Mapping[str, float], where: str = "policy") -> None:
    """Refuse levels outside [0, 1], and levels that add up to more than 1."""
    for name, level in levels.items():
        if isinstance(level, bool) or not isinstance(level, int | float):
            raise InputError(f"{where}: hide.{name}: a level is a number between 0 and 1; got {level!r}")
        if not 0 <= level <= 1:  # NaN is refused as well
            raise InputError(f"{where}: hide.{name}: a level lies between 0 and 1; got {level:g}")
    total = math.fsum(levels.values())
    if total > 1 + 1e-9:
        raise InputError(f"{where}: hide: the levels add up to {total:g}, and may add up to at most 1; lower some")


def check_attributes(levels: Mapping[str, float], attributes: Sequence[str], where: str = "policy") -> None:
    """Refuse levels of attributes that are not among these."""
    for name in levels:
        if name not in attributes:
            raise InputError(f"{where}: hide.{name}: no such attribute; known: {', '.join(attributes) or 'none'}")
