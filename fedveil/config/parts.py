"""Parts made from a study's plain values: games, shields, partitions, aggregators, optimisers."""

from __future__ import annotations

import collections.abc
import dataclasses
import inspect
import re
import types
import typing
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError

from fedveil.config.study import PartSettings
from fedveil.core import plugins
from fedveil.core.errors import InputError, nearest


def game_class(kind: str) -> type:
    """Return a registered game's class."""
    from fedveil.games.game import Game

    found: type = plugins.load("fedveil.games", kind, Game)
    return found


def shield_class(kind: str) -> type:
    """Return a registered shield's class."""
    from fedveil.shields.shield import Shield

    found: type = plugins.load("fedveil.shields", kind, Shield)
    return found


def partitioners() -> dict[str, type]:
    """Return the ways of dealing records to devices, by name."""
    from fedveil.data import partition

    kinds = (partition.IID, partition.Dirichlet, partition.ByGroup, partition.Shards, partition.OneEach)
    return {"iid" if kind is partition.IID else hyphenated(kind.__name__): kind for kind in kinds}


def aggregators() -> dict[str, type]:
    """Return the server's ways of aggregating, by name."""
    from fedveil.federation import aggregation

    kinds = (
        aggregation.WeightedMean,
        aggregation.Mean,
        aggregation.Median,
        aggregation.TrimmedMean,
        aggregation.Krum,
        aggregation.MaskedMean,
    )
    return {hyphenated(kind.__name__): kind for kind in kinds}


def make(kind: type, settings: Mapping[str, Any], where: str) -> Any:
    """Make a part, its settings checked by name and type; every fault names where it stands."""
    known = settings_of(kind)
    ready: dict[str, Any] = {}
    for name, value in settings.items():
        if name not in known:
            hint = nearest(name, known) if known else "it has none"
            raise InputError(f"{where}: unknown setting {name!r}: {hint}")
        ready[name] = fitting(value, known[name].annotation, f"{where}.{name}")
    for name, parameter in known.items():
        if parameter.default is inspect.Parameter.empty and name not in ready:
            raise InputError(f"{where}: setting {name!r} is missing; give it")
    try:
        return kind(**ready)
    except InputError as fault:
        raise InputError(f"{where}: {fault}") from fault
    except (TypeError, ValueError) as fault:
        raise InputError(f"{where}: cannot be made of {dict(settings)!r}: {fault}") from fault


def choose(kinds: Mapping[str, type], part: PartSettings, where: str, **further: Any) -> Any:
    """Make a part of one of the kinds; `further` settings are the study's own, given where the part needs them."""
    if part.kind not in kinds:
        raise InputError(f"{where}.kind: {part.kind!r} is not known: {nearest(part.kind, kinds)}")
    needed = {name for name, own in settings_of(kinds[part.kind]).items() if own.default is inspect.Parameter.empty}
    taken = {name: value for name, value in further.items() if name in needed}
    return make(kinds[part.kind], {**taken, **part.settings}, where)


def settings_of(kind: type) -> dict[str, inspect.Parameter]:
    """Return a part's settings: its constructor's parameters, annotations resolved where they can be."""
    # A dataclass's own hints: fields of a base are spelt in the words of the base's module, not of this one's.
    return options_of(kind.__init__, 1, kind if dataclasses.is_dataclass(kind) else None)  # type: ignore[misc]


def options_of(function: Callable[..., Any], skip: int = 0, hinted: Any = None) -> dict[str, inspect.Parameter]:
    """Return a function's named parameters but the first few, annotations resolved where they can be."""
    try:
        hints = typing.get_type_hints(hinted or function)
    except Exception:  # a name that only a type checker knows: such a setting is passed on unchecked
        hints = {}
    parameters = list(inspect.signature(function).parameters.values())[skip:]
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return {p.name: p.replace(annotation=hints.get(p.name, Any)) for p in parameters if p.kind in named}


def fitting(value: Any, annotation: Any, where: str) -> Any:
    """Return a plain value as the annotation wants it: a mapping with `kind` becomes one of its dataclasses."""
    made: list[Any] = [kind for kind in members(annotation) if dataclasses.is_dataclass(kind)]
    offered: dict[str, type] = {hyphenated(kind.__name__): kind for kind in made}
    if made and _files(value, annotation):
        return value
    if offered and isinstance(value, Mapping | str):
        settings = {"kind": value} if isinstance(value, str) else dict(value)
        kind = settings.pop("kind", next(iter(offered)) if len(offered) == 1 else None)
        if kind not in offered:
            raise InputError(f"{where}.kind: {kind!r} is not known: {nearest(str(kind), offered)}")
        return make(offered[kind], settings, where)
    if isinstance(value, bool) and bool not in members(annotation) and annotation is not Any:
        raise InputError(f"{where}: {value!r} is not allowed; it should be {_type_name(annotation)}")
    try:
        return TypeAdapter(annotation).validate_python(value)
    except ValidationError as fault:
        message = re.sub(r"^(Value error, )?Input should", "it should", fault.errors()[0]["msg"])
        raise InputError(f"{where}: {value!r} is not allowed; {message}") from None
    except PydanticSchemaGenerationError:  # a type that only Python code can make
        raise InputError(f"{where}: cannot be given in a study, only in Python") from None


def _files(value: Any, annotation: Any) -> bool:
    """Whether a value names files of what only Python code can make: a text, or a list of texts, where that may be."""
    listed = [member for member in members(annotation) if typing.get_origin(member) is collections.abc.Sequence]
    texts = {member for own in listed for one in typing.get_args(own) for member in members(one)}
    if isinstance(value, list):
        return bool(value) and Path in texts and all(isinstance(one, str) for one in value)
    return isinstance(value, str) and Path in members(annotation)


def hyphenated(name: str) -> str:
    """Return a class's name as a study writes it.

    >>> hyphenated("TrimmedMean"), hyphenated("SGD"), hyphenated("ByGroup")
    ('trimmed-mean', 'sgd', 'by-group')
    """
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).lower()


def members(annotation: Any) -> tuple[Any, ...]:
    """Return the types that an annotation allows."""
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return typing.get_args(annotation)
    return (annotation,)


def _type_name(annotation: Any) -> str:
    return " or ".join(getattr(member, "__name__", str(member)) for member in members(annotation))
