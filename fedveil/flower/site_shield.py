"""The shield that a site's policy asks for: made by its registered name, with its settings, zoos and levels."""

from __future__ import annotations

import functools
import hashlib
import inspect
import logging
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_origin

from fedveil.config.parts import fitting, make, settings_of, shield_class
from fedveil.config.parts import members as members_of
from fedveil.core.errors import InputError, nearest
from fedveil.flower.spending import costs_of
from fedveil.shields.message import Kind
from fedveil.shields.shield import Chain, Shield

if TYPE_CHECKING:
    from fedveil.flower.policy_file import SitePolicy
    from fedveil.shields.recup.zoo import Zoo

_log = logging.getLogger("fedveil.flower")


def made_for(policy: SitePolicy) -> Shield:
    """Make the shield; refused are those that cannot work on an update alone, and an ε that none can keep."""
    kinds = [_kind(policy, settings["kind"]) for settings in policy.shields]
    if not any("zoos" in _settings(kind) for kind in kinds):
        for table, own in (("hide", policy.hide), ("zoo", policy.zoo), ("own", policy.own)):
            if own:
                named = ", ".join(settings["kind"] for settings in policy.shields)
                raise InputError(f"{policy.path}: {table}: {named} does not work by attributes; leave [{table}] out")
    zoos = _zoos(policy)
    made = [_one(policy, kind, settings, zoos) for kind, settings in zip(kinds, policy.shields, strict=True)]
    shield = made[0] if len(made) == 1 else Chain(made)
    policy.budget.check(costs_of(shield), str(policy.path))
    return shield


def _kind(policy: SitePolicy, kind: str) -> type[Shield]:
    try:
        found = _registered(kind)
    except InputError as fault:
        raise InputError(f"{policy.path}: shield.kind: {fault}") from None
    _check_place(kind, found, f"{policy.path}: shield")
    return found


def _one(policy: SitePolicy, kind: type[Shield], settings: Mapping[str, Any], zoos: Mapping[str, Zoo]) -> Shield:
    where = f"{policy.path}: shield"
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
        given: dict[str, Any] = {"zoos": list(zoos.values()), "levels": dict(policy.hide)}
        return kind(**given, **chosen)

    return _quietly(kind, chosen, made_of, where)


def _zoos(policy: SitePolicy) -> dict[str, Zoo]:
    """Return the zoo of each attribute that is hidden, and check that its own value is one that it knows."""
    found: dict[str, Zoo] = {}
    for name in {**policy.zoo, **policy.own}:
        if name not in policy.hide:
            table = "zoo" if name in policy.zoo else "own"
            raise InputError(f"{policy.path}: {table}.{name}: is not hidden here: {nearest(name, policy.hide)}")
    for name in policy.hide:
        if name not in policy.zoo:
            raise InputError(f'{policy.path}: hide.{name}: has no zoo; write under [zoo]: {name} = "its file"')
        try:
            found[name] = _load(policy.zoo[name])
        except InputError as fault:
            raise InputError(f"{policy.path}: zoo.{name}: {fault}") from None
        if found[name].attribute != name:
            raise InputError(
                f"{policy.path}: zoo.{name}: is a zoo for {found[name].attribute!r}; name the one for {name!r}"
            )
        if name not in policy.own:
            raise InputError(
                f"{policy.path}: own.{name}: is missing; write under [own] the site's most frequent value: "
                f"{', '.join(found[name].values)}"
            )
        if policy.own[name] not in found[name].values:
            raise InputError(
                f"{policy.path}: own.{name}: {policy.own[name]!r} is no value of it; its zoo knows: "
                f"{', '.join(found[name].values)}"
            )
    return found


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
    from fedveil.shields.recup.zoo import Zoo

    return Zoo.load(path)
