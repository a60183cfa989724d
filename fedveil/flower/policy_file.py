"""A site's policy: what may leave a Flower node, in a small TOML file that the person at the site writes by hand.

shield = {kind = "dp-gaussian", clip = 1.0, sigma = 4.0}   # by its registered name, with its settings; a list: a chain
metrics = ["num-examples", "train_loss"]   # figures that may leave beside; num-examples alone if unsaid
tell = ["damage", "spent"]                 # what the server is told of these; nothing if unsaid
ledger = "ledger.jsonl"                    # seen from the policy's folder, as are zoos

[budget]           # what may be spent in all; see `Budget`
messages = 50
epsilon = 8.0
delta = 1e-5

[hide]             # for shields that hide attributes by a zoo (recup): levels γ from 0 to 1, together at most 1
sex = 1.0
[zoo]
sex = "sex.safetensors"
[own]              # the most frequent value among the site's own records, as the zoo names it; it never leaves
sex = "Female"
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import logging
import tomllib
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_origin

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from fedveil.errors import InputError, nearest
from fedveil.flower.spending import Budget, costs_of, members
from fedveil.policy import Policy, read_text
from fedveil.shields.message import Kind
from fedveil.shields.shield import Chain, Shield
from fedveil.studies.parts import fitting, make, settings_of, shield_class
from fedveil.studies.parts import members as members_of

if TYPE_CHECKING:
    from fedveil.zoo.zoo import Zoo

_log = logging.getLogger("fedveil.flower")

COUNT = "num-examples"
"""How many records an update was learned from: what a server weighs updates by."""

OWN = "fedveil-"
"""How the names of figures begin that the mod itself tells."""


class _Limits(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    messages: int | None = Field(None, ge=1)
    evaluations: int | None = Field(None, ge=0)
    epsilon: float | None = Field(None, gt=0, allow_inf_nan=False)
    delta: float | None = Field(None, gt=0, lt=1)

    @model_validator(mode="after")
    def _together(self) -> _Limits:
        if self.delta is not None and self.epsilon is None:
            raise ValueError("budget.delta: has no epsilon beside it; name both, or neither")
        return self


class _Written(BaseModel):
    """What the file says, before anything is made of it."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    shield: dict[str, Any] | list[dict[str, Any]]
    metrics: list[str] = Field(default_factory=lambda: [COUNT])
    tell: list[Literal["damage", "spent"]] = Field(default_factory=list)
    ledger: str = Field("ledger.jsonl", min_length=1)
    hide: dict[str, float] = Field(default_factory=dict)
    zoo: dict[str, str] = Field(default_factory=dict)
    own: dict[str, str] = Field(default_factory=dict)
    budget: _Limits = Field(default_factory=_Limits)

    @field_validator("shield")
    @classmethod
    def _kinds(cls, shield: dict[str, Any] | list[dict[str, Any]]) -> dict[str, Any] | list[dict[str, Any]]:
        listed = shield if isinstance(shield, list) else [shield]
        if not listed:
            raise ValueError('shield: names none; write {kind = "none"} where nothing shall be shielded')
        for one in listed:
            if not isinstance(one.get("kind"), str):
                raise ValueError('shield.kind: is missing; name a shield: kind = "dp-gaussian"')
        return shield

    @field_validator("metrics")
    @classmethod
    def _names(cls, metrics: list[str]) -> list[str]:
        for name in metrics:
            if name.startswith(OWN):
                raise ValueError(f"metrics: {name!r} is a name that the mod itself uses; allow it by `tell`")
        return metrics


@dataclass(frozen=True)
class SitePolicy:
    """What the person at a site has chosen.

    Attributes:
        path: the file.
        digest: SHA-256 of its content.
        shields: a kind with its settings, one for each member of a chain.
        metrics: the figures that may leave.
        tell: what the mod may tell of itself.
        ledger: the ledger's file.
        hide, zoo, own: levels, zoos' files and own values, by attribute.
        budget: what may be spent in all.
    """

    path: Path
    digest: str
    shields: tuple[dict[str, Any], ...]
    metrics: tuple[str, ...]
    tell: frozenset[str]
    ledger: Path
    budget: Budget
    hide: Mapping[str, float] = field(default_factory=dict)
    zoo: Mapping[str, Path] = field(default_factory=dict)
    own: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, path: str | Path) -> SitePolicy:
        """Read the file; the first fault is told in one line that names the file and the key."""
        path = Path(path)
        text = read_text(path, "a site's policy, a TOML file with a line: shield = {…}")
        try:
            written = _Written.model_validate(tomllib.loads(text))
        except (tomllib.TOMLDecodeError, RecursionError) as fault:
            raise InputError(f"{path}: is not TOML ({fault})") from None
        except ValidationError as fault:
            raise InputError(f"{path}: {_told(fault)}") from None
        listed = written.shield if isinstance(written.shield, list) else [written.shield]
        limits = written.budget
        if written.hide:  # levels and their sum are checked as any policy's are
            Policy.of({"hide": written.hide, "zoo": written.zoo, "shield": "as-printed"}, str(path))
        return cls(
            path,
            hashlib.sha256(text.encode()).hexdigest(),
            tuple(listed),
            tuple(dict.fromkeys(written.metrics)),
            frozenset(written.tell),
            path.parent / written.ledger,
            Budget(limits.messages, limits.evaluations, limits.epsilon, limits.delta or 0.0),
            written.hide,
            {name: path.parent / own for name, own in written.zoo.items()},
            written.own,
        )

    def make(self) -> Shield:
        """Make the shield; refused are those that cannot work on an update alone, and an ε that none can keep."""
        kinds = [self._kind(settings["kind"]) for settings in self.shields]
        if not any("zoos" in _settings(kind) for kind in kinds):
            for table, own in (("hide", self.hide), ("zoo", self.zoo), ("own", self.own)):
                if own:
                    named = ", ".join(settings["kind"] for settings in self.shields)
                    raise InputError(f"{self.path}: {table}: {named} does not work by attributes; leave [{table}] out")
        zoos = self._zoos()
        made = [self._one(kind, settings, zoos) for kind, settings in zip(kinds, self.shields, strict=True)]
        shield = made[0] if len(made) == 1 else Chain(made)
        self.budget.check(costs_of(shield), str(self.path))
        return shield

    def _kind(self, kind: str) -> type[Shield]:
        try:
            found = _registered(kind)
        except InputError as fault:
            raise InputError(f"{self.path}: shield.kind: {fault}") from None
        _check_place(kind, found, f"{self.path}: shield")
        return found

    def _one(self, kind: type[Shield], settings: Mapping[str, Any], zoos: Mapping[str, Zoo]) -> Shield:
        where = f"{self.path}: shield"
        chosen = {name: value for name, value in settings.items() if name != "kind"}
        _check_texts(kind, chosen, where)
        if "zoos" not in _settings(kind):
            made: Shield = make(kind, chosen, where)
            _check_place(settings["kind"], made, where)
            return made
        if not zoos:
            raise InputError(
                f"{where}.kind: {settings['kind']} hides attributes: write [hide] with levels, and [zoo], [own]"
            )
        for name, table in (("zoos", "zoo"), ("levels", "hide")):
            if name in chosen:
                raise InputError(f"{where}.{name}: belongs in the table [{table}]")

        def made_of(**chosen: Any) -> Shield:
            given: dict[str, Any] = {"zoos": list(zoos.values()), "levels": dict(self.hide)}
            return kind(**given, **chosen)

        return _quietly(kind, chosen, made_of, where)

    def _zoos(self) -> dict[str, Zoo]:
        """Return the zoo of each attribute that is hidden, and check that its own value is one that it knows."""
        found: dict[str, Zoo] = {}
        for name in {**self.zoo, **self.own}:
            if name not in self.hide:
                table = "zoo" if name in self.zoo else "own"
                raise InputError(f"{self.path}: {table}.{name}: is not hidden here: {nearest(name, self.hide)}")
        for name in self.hide:
            if name not in self.zoo:
                raise InputError(f'{self.path}: hide.{name}: has no zoo; write under [zoo]: {name} = "its file"')
            try:
                found[name] = _load(self.zoo[name])
            except InputError as fault:
                raise InputError(f"{self.path}: zoo.{name}: {fault}") from None
            if found[name].attribute != name:
                raise InputError(
                    f"{self.path}: zoo.{name}: is a zoo for {found[name].attribute!r}; name the one for {name!r}"
                )
            if name not in self.own:
                raise InputError(
                    f"{self.path}: own.{name}: is missing; write under [own] the site's most frequent value: "
                    f"{', '.join(found[name].values)}"
                )
            if self.own[name] not in found[name].values:
                raise InputError(
                    f"{self.path}: own.{name}: {self.own[name]!r} is no value of it; its zoo knows: "
                    f"{', '.join(found[name].values)}"
                )
        return found

    def known(self, shield: Shield) -> dict[str, torch.Tensor]:
        """Return the site's own values as a shield reads them."""
        zoos: dict[str, Zoo] = {}
        for member in members(shield):
            zoos |= getattr(member, "zoos", {})
        return {f"u:{name}": torch.tensor([zoo.values.index(self.own[name])]) for name, zoo in zoos.items()}


@functools.cache
def _registered(kind: str) -> type[Shield]:
    """Return a shield's class; all installed packages are looked through once in a process, not at every message."""
    found: type[Shield] = shield_class(kind)
    return found


@functools.cache
def _settings(kind: type[Shield]) -> dict[str, inspect.Parameter]:
    return settings_of(kind)


def _check_place(kind: str, shield: type[Shield] | Shield, where: str) -> None:
    """Refuse what needs more than an update, and say where it belongs."""
    if shield.by_record:
        raise InputError(
            f"{where}.kind: {kind} needs the records behind an update, one by one; a mod sees the update alone: it "
            "belongs in the training code, or in a study"
        )
    kinds = shield if isinstance(shield, type) else type(shield)
    if Kind.UPDATE in shield.acts_on and kinds.prepared is not Shield.prepared:
        raise InputError(
            f"{where}.kind: {kind} learns from all devices' records beforehand, which a site does not have: it belongs "
            "in a study"
        )
    if Kind.UPDATE in shield.acts_on:
        return
    if Kind.INPUT in shield.acts_on:
        raise InputError(
            f"{where}.kind: {kind} changes records before training, and a mod sees the update alone: it belongs where "
            "the app loads its data"
        )
    raise InputError(
        f"{where}.kind: {kind} works on {', '.join(sorted(shield.acts_on))}, and a mod sees the update alone: it "
        "belongs where those leave"
    )


def _check_texts(kind: type[Shield], chosen: Mapping[str, Any], where: str) -> None:
    """Refuse a number in quotes: TOML tells the two apart, and so should whoever writes it."""
    known = _settings(kind)
    for name, value in chosen.items():
        allowed = members_of(known[name].annotation) if name in known else (Any,)
        if isinstance(value, str) and not {str, Any} & set(allowed) and all(get_origin(own) is None for own in allowed):
            raise InputError(f"{where}.{name}: {value!r} is a text and should be a number; leave the quotes out")


def _quietly(kind: type[Shield], chosen: Mapping[str, Any], made_of: Callable[..., Shield], where: str) -> Shield:
    """Make a shield with zoos; what it warns of goes to the site's log, where the person can read it."""
    known = _settings(kind)
    for name in chosen:
        if name not in known:
            raise InputError(f"{where}: unknown setting {name!r}: {nearest(name, known)}")
    ready = {name: fitting(value, known[name].annotation, f"{where}.{name}") for name, value in chosen.items()}
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            made = made_of(**ready)
        except InputError as fault:
            raise InputError(f"{where}: {fault}") from None
    for warning in told:
        _log.warning("%s: %s", where, warning.message)
    return made


def _load(path: Path) -> Zoo:
    """Load a zoo; one whose file has not changed is loaded once in a process."""
    try:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as fault:
        raise InputError(f"{path}: cannot be read ({fault.strerror})") from None
    return _loaded(path, digest)


@functools.lru_cache(maxsize=4)
def _loaded(path: Path, digest: str) -> Zoo:
    from fedveil.zoo.zoo import Zoo

    return Zoo.load(path)


def _told(fault: ValidationError) -> str:
    """Return the first fault in words."""
    first = min(fault.errors(), key=lambda own: own["type"] != "extra_forbidden")  # a misspelt name explains the rest
    parts = [str(part) for part in first["loc"] if not str(part).startswith(("dict[", "list["))]
    place = ".".join(parts)
    if first["type"] == "extra_forbidden":
        known = _Limits.model_fields if parts[0] == "budget" else _Written.model_fields
        return f"{place}: no such setting: {nearest(parts[-1], known)}"
    if first["type"] == "missing":
        return f'{place}: is missing; write a line such as: shield = {{kind = "dp-gaussian", clip = 1.0, sigma = 4.0}}'
    if first["type"] == "value_error":
        return str(first["ctx"]["error"])
    wanted = first["msg"].replace("Input should", "it should")
    for words in ("a valid dictionary or instance of _Limits", "a valid dictionary"):
        wanted = wanted.replace(words, "a table")
    return f"{place}: {first['input']!r} is not allowed; {wanted}"
