"""Cells: one method at one strength with one seed; what determines its results, and how its parts are built."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from fedveil.config import parts
from fedveil.config.study import Method, PartSettings, Study
from fedveil.core.errors import InputError, nearest

if TYPE_CHECKING:
    from fedveil.data import AttributeData
    from fedveil.data.partition import Partitioner
    from fedveil.federation.federation import Federation
    from fedveil.games.game import Game

BASELINE = "drop-columns"


@dataclass(frozen=True)
class Cell:
    """One method at one strength with one seed."""

    id: str
    method: str
    strength: float | None
    seed: int

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return dict(vars(self))


def cell_of(study: Study, method: Method, strength: float | None, seed: int) -> Cell:
    """Return a cell; its id is readable and ends in a digest of everything that determines its results."""
    text = json.dumps(determines(study, method, strength, seed), sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()[:10]
    words = [method.name, *([] if strength is None else [f"{strength:g}"]), f"seed{seed}", digest]
    return Cell(re.sub(r"[^A-Za-z0-9._-]+", "_", "-".join(words)), method.name, strength, seed)


def determines(study: Study, method: Method, strength: float | None, seed: int) -> dict[str, Any]:
    """Return everything that a cell's results depend on, as plain values."""
    plain = method.model_dump(mode="json", exclude={"strengths", "at"})
    if strength in method.at:
        plain["at"] = method.at[strength]
    if method.policy is not None:
        from fedveil.config.policy import read_policy  # torch

        plain["policy"] = read_policy(method.policy).digest
    return {"shared": shared_parts(study), "method": plain, "strength": strength, "seed": seed}


def shared_parts(study: Study) -> dict[str, Any]:
    """Return what all cells of a study share; two studies that differ in any of this cannot share one directory."""
    names = {"data", "federation", "tasks", "heads", "attacks", "threads"}
    return study.model_dump(mode="json", include=names)


def plan(study: Study, methods: list[Method]) -> list[Cell]:
    """Return all cells, seed by seed, so that a study that is only partly computed has whole curves."""
    return [
        cell_of(study, method, strength, seed)
        for seed in study.seeds
        for method in methods
        for strength in method.points
    ]


def all_methods(study: Study, data: AttributeData) -> list[Method]:
    """Return the study's methods and, for a table, the drop-columns baseline against each attribute."""
    for method in study.methods:
        if method.name.startswith(BASELINE) and (method.shield is None or method.shield.kind != BASELINE):
            raise InputError(
                f"methods.{method.name}.name: names that start with {BASELINE} belong to the baseline, whose shield is "
                f"{BASELINE}; choose another name"
            )
    if not data.feature_names:
        return list(study.methods)
    from fedveil.shields.drop_columns import table_columns

    count = len(set(table_columns(data)))
    chosen = study.drop_columns
    numbers = sorted({round(count * share) for share in (0, 0.25, 0.5, 0.75)}) if chosen == "auto" else chosen
    # Raw inputs have neither outputs nor updates; plain training on the remaining columns has both.
    game = "raw" if study.attacks.view == "representations" else "undefended"
    existing_names = {method.name for method in study.methods}
    return [
        *study.methods,
        *(
            Method(
                name=baseline_name(study, attribute),
                game=PartSettings(kind=game),
                shield=PartSettings.model_validate({"kind": BASELINE, "attribute": attribute}),
                varies="shield.columns",
                strengths=[float(number) for number in numbers],
            )
            for attribute in study.asked
            if baseline_name(study, attribute) not in existing_names
        ),
    ]


def baseline_name(study: Study, attribute: str) -> str:
    """Return the name of the drop-columns baseline against an attribute."""
    return BASELINE if len(study.asked) == 1 else f"{BASELINE} ({attribute})"


def make_game(method: Method, strength: float | None) -> Game:
    """Build a method's game at a strength."""
    where = f"methods.{method.name}.game"
    game: Game = parts.make(parts.game_class(method.game.kind), _with_strength(method, "game", strength), where)
    return game


def make_federation(
    study: Study,
    method: Method,
    strength: float | None,
    seed: int,
    data: AttributeData,
    holders: Partitioner | None = None,
) -> Federation:
    """Build the federation that plays a cell's game; `holders`, if given, replaces the study's partition."""
    from fedveil.federation.federation import Federation

    section = study.federation
    devices: int | Partitioner = section.devices
    further: dict[str, Any] = {}
    if method.policy is not None:
        from fedveil.config.policy import read_policy, shield_for

        try:
            policy = read_policy(method.policy, tuple(data.attributes))
            further |= {"shield": shield_for(policy), "policies": policy}
        except InputError as fault:
            raise InputError(f"methods.{method.name}.policy: {fault}") from None
    if method.shield is not None:
        where = f"methods.{method.name}.shield"
        settings = _with_strength(method, "shield", strength)
        further["shield"] = parts.make(parts.shield_class(method.shield.kind), settings, where)
    if section.aggregation is not None:
        further["aggregation"] = parts.choose(parts.aggregators(), section.aggregation, "federation.aggregation")
    if holders is not None:
        devices = holders
    elif section.partition is not None:
        kinds = parts.partitioners()
        devices = parts.choose(kinds, section.partition, "federation.partition", devices=section.devices)
    return Federation(
        data,
        devices,
        fraction=section.fraction,
        seed=seed,
        engine=section.engine,
        unreliable=section.unreliable,
        device=section.device,
        dtype=section.dtype,
        **further,
    )


def _with_strength(method: Method, part: str, strength: float | None) -> dict[str, Any]:
    """Return a part's settings, including the strength if it is the part that strengths vary."""
    configured: PartSettings = getattr(method, part)
    varied, setting = method.varied
    changes = method.at.get(strength, {}) if strength is not None else {}
    settings = {
        **configured.settings,
        **{name.partition(".")[2]: value for name, value in changes.items() if name.startswith(f"{part}.")},
    }
    if strength is None or varied != part:
        return settings
    allowed = _settings_of(part, configured.kind)
    if setting not in allowed:
        raise InputError(
            f"methods.{method.name}: strengths vary {part}.{setting}, but {configured.kind} has no such setting: "
            f"{nearest(setting, allowed)} (name it: varies: {part}.<setting>)"
        )
    return {**settings, setting: strength}


def _settings_of(part: str, kind: str) -> Mapping[str, Any]:
    return parts.settings_of(parts.game_class(kind) if part == "game" else parts.shield_class(kind))


def check_varies(method: Method) -> None:
    """Refuse a `varies` that names no part of the method or has no strengths, and an `at` that does not fit."""
    part, setting = method.varied
    where = f"methods.{method.name}.varies"
    if method.varies is not None and (part not in ("game", "shield") or not setting):
        raise InputError(f"{where}: {method.varies!r} is not allowed; write game.<setting> or shield.<setting>")
    if method.varies is not None and method.strengths is None:
        raise InputError(f"{where}: {method.varies!r} is to vary, but the method has no strengths; list them")
    if method.strengths is not None and getattr(method, part) is None:
        raise InputError(f"{where}: {method.varies!r} varies a {part}, but the method has none; give it one")
    for strength, changes in method.at.items():
        where = f"methods.{method.name}.at.{strength:g}"
        if strength not in (method.strengths or []):
            raise InputError(
                f"{where}: {strength:g} is not among the method's strengths; list it there, or leave it out"
            )
        for name in changes:
            owner, _, changed = name.partition(".")
            if (
                owner not in ("game", "shield")
                or not changed
                or getattr(method, owner) is None
                or name == f"{part}.{setting}"
            ):
                raise InputError(
                    f"{where}: {name!r} is not allowed; write game.<setting> or shield.<setting> of a part that the "
                    f"method has, other than the one that varies"
                )
            kind = getattr(method, owner).kind
            allowed = _settings_of(owner, kind)
            if changed not in allowed:
                raise InputError(f"{where}.{name}: {kind} has no such setting: {nearest(changed, allowed)}")


@lru_cache(maxsize=2)
def _loaded(text: str, seed: int) -> AttributeData:
    from fedveil.core.randomness import numpy_generator
    from fedveil.data import Split, load
    from fedveil.data.catalogue import find_source

    section = json.loads(text)
    parameters = parts.options_of(find_source(section["source"]).read)
    annotations = {name: parameter.annotation for name, parameter in parameters.items()}
    options = {
        name: parts.fitting(value, annotations.get(name, Any), f"data.options.{name}")
        for name, value in section["options"].items()
    }
    for name in ("target", "sensitive", "seed"):
        if name in options:
            raise InputError(f"data.options.{name}: is not allowed here; the study sets it elsewhere")
    data = load(section["source"], target=section["target"], sensitive=section["sensitive"], seed=seed, **options)
    if section["records"] is None or section["records"] >= len(data):
        return data
    rng, share = numpy_generator(seed, "records"), section["records"] / len(data)
    sampled = [
        rng.choice(rows, max(1, round(share * len(rows))), replace=False) for rows in map(data.rows, Split) if len(rows)
    ]
    return data.take(np.sort(np.concatenate(sampled)))


def load_data(study: Study, seed: int) -> AttributeData:
    """Load a study's data as one seed splits it; the last two results are cached."""
    return _loaded(json.dumps(study.data.model_dump(mode="json"), sort_keys=True), seed)
