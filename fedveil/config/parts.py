"""Parts built from the plain values in files: games, shields, partitions, aggregations, optimisers."""

from __future__ import annotations

import collections.abc
import dataclasses
import functools
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

    game: type = plugins.load("fedveil.games", kind, Game)
    return game


def shield_class(kind: str) -> type:
    """Return a registered shield's class."""
    from fedveil.shields.shield import Shield

    shield: type = plugins.load("fedveil.shields", kind, Shield)
    return shield


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
    """Build a part from settings, which are checked by name and type; every fault starts with `where`."""
    parameters = settings_of(kind)
    values: dict[str, Any] = {}
    for name, value in settings.items():
        if name not in parameters:
            hint = nearest(name, parameters) if parameters else "it has none"
            raise InputError(f"{where}: unknown setting {name!r}: {hint}")
        values[name] = fitting(value, parameters[name].annotation, f"{where}.{name}")
    for name, parameter in parameters.items():
        if parameter.default is inspect.Parameter.empty and name not in values:
            raise InputError(f"{where}: setting {name!r} is missing; give it")
    try:
        return kind(**values)
    except InputError as fault:
        raise InputError(f"{where}: {fault}") from fault
    except (TypeError, ValueError) as fault:
        raise InputError(f"{where}: cannot be built from {dict(settings)!r}: {fault}") from fault


def choose(kinds: Mapping[str, type], part: PartSettings, where: str, **further: Any) -> Any:
    """Build a part of one of the kinds; it also receives those of the study's `further` settings that it requires."""
    if part.kind not in kinds:
        raise InputError(f"{where}.kind: {part.kind!r} is not known: {nearest(part.kind, kinds)}")
    needed = required_settings(kinds[part.kind])
    passed = {name: value for name, value in further.items() if name in needed}
    return make(kinds[part.kind], {**passed, **part.settings}, where)


@functools.cache
def settings_of(kind: type) -> dict[str, inspect.Parameter]:
    """Return a part's settings: its constructor's parameters, with resolved annotations where possible.

    If a dataclass computes a default with a factory, the parameter has the computed value as its default.
    """
    if not dataclasses.is_dataclass(kind):
        return options_of(kind.__init__, 1)  # type: ignore[misc]
    # Type hints of the class, not of its constructor: a base class's annotations use names from the base's module.
    parameters = options_of(kind.__init__, 1, kind)
    for field in dataclasses.fields(kind):
        if field.name in parameters and field.default_factory is not dataclasses.MISSING:
            parameters[field.name] = parameters[field.name].replace(default=field.default_factory())
    return parameters


def required_settings(kind: type) -> list[str]:
    """Return the settings of a part that have no default."""
    return [name for name, setting in settings_of(kind).items() if setting.default is inspect.Parameter.empty]


def options_of(function: Callable[..., Any], skip: int = 0, annotated: Any = None) -> dict[str, inspect.Parameter]:
    """Return a function's named parameters after the first `skip`, with resolved annotations where possible.

    Annotations are read from `annotated`, if it is given, instead of from the function.
    """
    try:
        hints = typing.get_type_hints(annotated or function)
    except Exception:  # a name that only a type checker knows: such a setting is passed on unchecked
        hints = {}
    parameters = list(inspect.signature(function).parameters.values())[skip:]
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return {p.name: p.replace(annotation=hints.get(p.name, Any)) for p in parameters if p.kind in named}


def fitting(value: Any, annotation: Any, where: str) -> Any:
    """Return a plain value converted to an annotation: a mapping with `kind` becomes one of its dataclasses."""
    classes: list[Any] = [option for option in alternatives(annotation) if dataclasses.is_dataclass(option)]
    offered: dict[str, type] = {hyphenated(option.__name__): option for option in classes}
    if classes and _names_files(value, annotation):
        return value
    if offered and isinstance(value, Mapping | str):
        settings = {"kind": value} if isinstance(value, str) else dict(value)
        kind = settings.pop("kind", next(iter(offered)) if len(offered) == 1 else None)
        if kind not in offered:
            raise InputError(f"{where}.kind: {kind!r} is not known: {nearest(str(kind), offered)}")
        return make(offered[kind], settings, where)
    if isinstance(value, bool) and bool not in alternatives(annotation) and annotation is not Any:
        raise InputError(f"{where}: {value!r} is not allowed; it should be {_type_name(annotation)}")
    try:
        return TypeAdapter(annotation).validate_python(value)
    except ValidationError as fault:
        message = re.sub(r"^(Value error, )?Input should", "it should", fault.errors()[0]["msg"])
        raise InputError(f"{where}: {value!r} is not allowed; {message}") from None
    except PydanticSchemaGenerationError:  # a type that only Python code can make
        raise InputError(f"{where}: cannot be given in a study, only in Python") from None


def _names_files(value: Any, annotation: Any) -> bool:
    """Whether a value is a file's name, or a list of them, where an annotation allows files of Python objects."""
    sequences = [option for option in alternatives(annotation) if typing.get_origin(option) is collections.abc.Sequence]
    items = {option for sequence in sequences for item in typing.get_args(sequence) for option in alternatives(item)}
    if isinstance(value, list):
        return bool(value) and Path in items and all(isinstance(item, str) for item in value)
    return isinstance(value, str) and Path in alternatives(annotation)


def hyphenated(name: str) -> str:
    """Return a class's name as a study writes it.

    >>> hyphenated("TrimmedMean"), hyphenated("SGD"), hyphenated("ByGroup")
    ('trimmed-mean', 'sgd', 'by-group')
    """
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).lower()


def alternatives(annotation: Any) -> tuple[Any, ...]:
    """Return the types that an annotation allows."""
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return typing.get_args(annotation)
    return (annotation,)


def _type_name(annotation: Any) -> str:
    return " or ".join(getattr(option, "__name__", str(option)) for option in alternatives(annotation))
