"""A policy's file, and the shield that a policy asks for.

A policy is a small TOML file, written by hand. The same file is read by Python, by studies and at a Flower site:

    shield = "recommended"   # the default; or {kind = "recommended", change = 0.1}, the mean relative change of records

    [hide]                   # levels γ from 0 to 1, whose sum is at most 1
    race = 0.5
    sex = 0.5

A shield is named by its registered name, alone or with settings; a list is a chain. At a Flower site, a policy also
says what may leave beside an update; elsewhere these keys are read, checked, and have no effect:

    shield = {kind = "dp-gaussian", clip = 1.0, sigma = 4.0}
    metrics = ["num-examples", "train_loss"]   # figures that may leave; default: num-examples
    tell = ["damage", "spent"]                 # what the mod reports to the server; default: nothing
    ledger = "ledger.jsonl"                    # relative to the policy's folder, as are zoos and fits

    [budget]                                   # the most that may be spent in total; see `Budget`
    messages = 50
    epsilon = 8.0
    delta = 1e-5

Shields that hide attributes with a zoo need the zoo and, at a Flower site, the value to hide:

    shield = {kind = "recup", budget = 0.01, minimal = true}
    hide = {sex = 1.0}
    zoo = {sex = "sex.safetensors"}
    own = {sex = "Female"}   # the most frequent value among the site's records, as the zoo names it; it never leaves
"""

from __future__ import annotations

import functools
import hashlib
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from fedveil.config.parts import alternatives, fitting, make, settings_of, shield_class
from fedveil.core.errors import InputError, closest, nearest
from fedveil.core.files import read_hand_written
from fedveil.core.policy import COUNT, MOD_PREFIX, RECOMMENDED, Budget, Policy, ShieldChoice
from fedveil.shields.recup.zoo import Zoo
from fedveil.shields.shield import Chain, Shield

MOST_BYTES = 100_000
"""Far more than any person writes by hand."""


class _Limits(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    messages: int | None = Field(None, ge=1)
    evaluations: int | None = Field(None, ge=0)
    epsilon: float | None = Field(None, gt=0, allow_inf_nan=False)
    delta: float | None = Field(None, gt=0, lt=1)

    @model_validator(mode="after")
    def _together(self) -> _Limits:
        if self.delta is not None and self.epsilon is None:
            raise ValueError("budget.delta: has no epsilon beside it; set both, or neither")
        return self


class _Written(BaseModel):
    """What the file says."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    shield: str | dict[str, Any] | list[str | dict[str, Any]] = RECOMMENDED
    hide: dict[str, float] = Field(default_factory=dict)
    zoo: dict[str, str] = Field(default_factory=dict)
    own: dict[str, str] = Field(default_factory=dict)
    metrics: list[str] = Field(default_factory=lambda: [COUNT])
    tell: list[Literal["damage", "spent"]] = Field(default_factory=list)
    ledger: str = Field("ledger.jsonl", min_length=1)
    budget: _Limits = Field(default_factory=_Limits)

    @field_validator("metrics")
    @classmethod
    def _names(cls, metrics: list[str]) -> list[str]:
        for name in metrics:
            if name.startswith(MOD_PREFIX):
                raise ValueError(f"metrics: {name!r} is a name that the mod itself uses; allow it by `tell`")
        return metrics


def read_policy(path: str | Path, attributes: Sequence[str] | None = None) -> Policy:
    """Read a policy's file; paths in it are relative to its folder.

    Args:
        path: the TOML file.
        attributes: the attributes of the data; a policy that hides another one is refused.
    """
    path = Path(path)
    text = read_hand_written(
        path, "policy", "a policy, a TOML file with a table [hide] or a line shield = …", MOST_BYTES
    )
    policy = _parsed(text, path)
    if attributes is not None:
        policy.check(attributes)
    return policy


def parse_policy(text: str) -> Policy:
    """Read a policy from the text of a TOML file."""
    return _parsed(text, None)


def _parsed(text: str, path: Path | None) -> Policy:
    where = "policy" if path is None else str(path)
    try:
        written = _Written.model_validate(_in_present_form(tomllib.loads(text)))
    except (tomllib.TOMLDecodeError, RecursionError) as fault:
        raise InputError(f"{where}: is not TOML ({fault})") from None
    except ValidationError as fault:
        raise InputError(f"{where}: {_in_words(fault)}") from None
    except InputError as fault:
        raise InputError(f"{where}: {fault}") from None
    folder, limits = Path() if path is None else path.parent, written.budget
    return Policy(
        hide=written.hide,
        shield=written.shield,
        zoo={name: str(folder / file) for name, file in written.zoo.items()},
        own=written.own,
        metrics=tuple(dict.fromkeys(written.metrics)),
        tell=frozenset(written.tell),
        ledger=folder / written.ledger,
        budget=Budget(limits.messages, limits.evaluations, limits.epsilon, limits.delta or 0.0),
        path=path,
        digest=hashlib.sha256(text.encode()).hexdigest(),
    )


def _in_present_form(settings: dict[str, Any]) -> dict[str, Any]:
    """Convert a policy from the former format to the present one, or refuse it and say what to write instead.

    In the former format `shield = "hardened"` named the recommended shield, and `budget` was a number, its mean
    relative change; `shield = "as-printed"` named recup, with `budget` and `minimal` beside it.
    """
    shield, budget, minimal = settings.get("shield", RECOMMENDED), settings.get("budget"), settings.get("minimal")
    number = budget if isinstance(budget, int | float) and not isinstance(budget, bool) else None
    if shield == "as-printed" or "minimal" in settings:
        amount = "epsilon = 0.001" if number is None else f"budget = {number}"
        stops = "" if minimal is None else f", minimal = {str(minimal).lower()}"
        key = "shield: 'as-printed'" if shield == "as-printed" else "minimal:"
        raise InputError(f'{key} is now part of the shield; write shield = {{kind = "recup", {amount}{stops}}}')
    if number is not None and shield not in ("hardened", RECOMMENDED):
        raise InputError("budget: is a table of limits; write [budget] with a line such as: messages = 50")
    if number is not None and not 0 < number < float("inf"):
        raise InputError(f"budget: must be above 0 and finite; got {number:g}")
    if shield == "hardened":
        settings = {**settings, "shield": RECOMMENDED}
    if number is not None:
        settings = {name: value for name, value in settings.items() if name != "budget"}
        settings["shield"] = {"kind": RECOMMENDED, "change": number}
    return settings


def _in_words(fault: ValidationError) -> str:
    """Return the first fault in words."""
    errors = fault.errors()
    first = min(errors, key=lambda error: error["type"] != "extra_forbidden")  # a misspelt name explains the rest
    key = [str(part) for part in first["loc"] if not str(part).startswith(("dict[", "list[", "str"))]
    dotted = ".".join(key)
    if first["type"] == "extra_forbidden":
        fields = _Limits.model_fields if key[0] == "budget" else _Written.model_fields
        return f"{dotted}: no such setting: {nearest(key[-1], fields)}"
    if first["type"] == "value_error":
        return str(first["ctx"]["error"])
    examples = {
        "shield": 'a name or a table, such as {kind = "dp-gaussian", clip = 1.0, sigma = 4.0}',
        "hide": "a table [hide] of levels, such as: sex = 1.0",
        "zoo": 'a table [zoo] of files, such as: sex = "sex.safetensors"',
        "own": 'a table [own] of values, such as: sex = "Female"',
    }
    wanted = first["msg"].removeprefix("Input should be ")
    wanted = examples.get(key[0], wanted.replace("a valid dictionary or instance of _Limits", "a table"))
    return f"{dotted}: {first['input']!r} is not allowed; it should be {wanted}"


def shield_for(policy: Policy, zoos: Mapping[str, Zoo] | None = None) -> Shield:
    """Make the shield that a policy asks for.

    Args:
        policy: the policy.
        zoos: by attribute; a zoo that is not given here is loaded from the file that the policy names.
    """
    where = f"{policy.where}: shield"
    kinds = {choice.kind: shield_kind(choice.kind, where) for choice in policy.chosen if choice.kind != RECOMMENDED}
    with_zoos = [name for name, kind in kinds.items() if "zoos" in settings_of(kind)]
    if not with_zoos:
        for table, entries in (("hide", policy.hide), ("zoo", policy.zoo), ("own", policy.own)):
            if entries and not (table == "hide" and len(kinds) < len(policy.chosen)):
                named = ", ".join(choice.kind for choice in policy.chosen)
                raise InputError(f"{policy.where}: {table}: {named} does not use it; leave [{table}] out")
    if policy.hide and not any(level > 0 for level in policy.hide.values()):
        raise InputError(f"{policy.where}: hide: every level is 0, so nothing would be hidden; raise one")
    loaded = zoos_of(policy, zoos) if with_zoos else {}
    shields: list[Shield] = []
    for choice in policy.chosen:
        if choice.kind == RECOMMENDED:
            shields += _recommended(policy, choice, where)
        else:
            shields.append(_shield(policy, choice, kinds[choice.kind], loaded, where))
    return shields[0] if len(shields) == 1 else Chain(shields)


def _recommended(policy: Policy, choice: ShieldChoice, where: str) -> list[Shield]:
    from fedveil.shields.policies import recommended  # scikit-learn, which takes a second to import

    for name in choice.settings:
        if name != "change":
            raise InputError(f"{where}: unknown setting {name!r}: {nearest(name, ['change'])}")
    return recommended(policy, **choice.settings)


def _shield(policy: Policy, choice: ShieldChoice, kind: type[Shield], zoos: Mapping[str, Zoo], where: str) -> Shield:
    _check_texts(kind, choice.settings, where)
    settings: dict[str, Any]
    if "zoos" not in settings_of(kind):
        folder = Path() if policy.path is None else policy.path.parent
        settings = {
            name: str(folder / value) if name in kind.files and isinstance(value, str) else value
            for name, value in choice.settings.items()
        }
        shield: Shield = make(kind, settings, where)
        return shield
    if not zoos:
        raise InputError(f"{where}.kind: {choice.kind} hides attributes: write [hide] with levels, and [zoo]")
    for name, table in (("zoos", "zoo"), ("levels", "hide")):
        if name in choice.settings:
            raise InputError(f"{where}.{name}: belongs in the table [{table}]")
    parameters = settings_of(kind)
    for name in choice.settings:
        if name not in parameters:
            raise InputError(f"{where}: unknown setting {name!r}: {nearest(name, parameters)}")
    settings = {
        name: fitting(value, parameters[name].annotation, f"{where}.{name}") for name, value in choice.settings.items()
    }
    settings |= {"zoos": list(zoos.values()), "levels": {name: policy.hide[name] for name in zoos}}
    try:
        return kind(**settings)
    except InputError as fault:
        raise InputError(f"{where}: {fault}") from None


def zoos_of(policy: Policy, zoos: Mapping[str, Zoo] | None = None) -> dict[str, Zoo]:
    """Return a zoo for each attribute that a policy hides, from `zoos` or else from the file that the policy names."""
    by_attribute = dict(zoos or {})
    for name, level in policy.hide.items():
        if name not in by_attribute:
            if name not in policy.zoo:
                if level == 0:
                    continue
                raise InputError(f'{policy.where}: hide.{name}: has no zoo; write under [zoo]: {name} = "its file"')
            try:
                by_attribute[name] = _load_zoo(Path(policy.zoo[name]))
            except InputError as fault:
                raise InputError(f"{policy.where}: zoo.{name}: {fault}") from None
        attribute = by_attribute[name].attribute
        if attribute != name:
            raise InputError(f"{policy.where}: zoo.{name}: is a zoo for {attribute!r}; name the one for {name!r}")
    return {name: by_attribute[name] for name in policy.hide if name in by_attribute}


def shield_kind(kind: str, where: str) -> type[Shield]:
    """Return a registered shield's class."""
    try:
        return _registered(kind)
    except InputError as fault:
        if closest(kind, [RECOMMENDED]):
            raise InputError(f"{where}.kind: shield {kind!r} is not known: {nearest(kind, [RECOMMENDED])}") from None
        raise InputError(f"{where}.kind: {fault}") from None


@functools.cache  # installed packages are searched once in a process, not at every message of a Flower node
def _registered(kind: str) -> type[Shield]:
    shield: type[Shield] = shield_class(kind)
    return shield


def _check_texts(kind: type[Shield], settings: Mapping[str, Any], where: str) -> None:
    """Refuse a number in quotes: TOML distinguishes text from numbers."""
    parameters = settings_of(kind)
    for name, value in settings.items():
        allowed = alternatives(parameters[name].annotation) if name in parameters else (Any,)
        plain = all(get_origin(option) is None for option in allowed)
        if isinstance(value, str) and plain and not {str, Any} & set(allowed):
            raise InputError(f"{where}.{name}: {value!r} is text and should be a number; remove the quotes")


def _load_zoo(path: Path) -> Zoo:
    """Load a zoo; a file that has not changed is loaded once in a process."""
    try:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return Zoo.load(path)  # raises an error that says what is wrong
    return _loaded(path, digest)


@functools.lru_cache(maxsize=4)
def _loaded(path: Path, digest: str) -> Zoo:
    return Zoo.load(path)
