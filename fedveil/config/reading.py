"""A study's YAML as plain values: read safely, and refused if it is huge, recursive, or names a field twice."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from fedveil.core.errors import InputError
from fedveil.core.files import read_hand_written

MOST_BYTES = 1_000_000
MOST_VALUES = 20_000
MOST_DEPTH = 30


class _Loader(yaml.SafeLoader):
    """A safe loader that refuses a key given twice, and reads 1e-3 as a number."""


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[Any, Any]:
    seen: dict[Any, int] = {}
    for key_node, _ in node.value:
        if key_node.tag == "tag:yaml.org,2002:merge":
            continue
        key = loader.construct_object(key_node, deep=True)
        line = key_node.start_mark.line + 1
        if not isinstance(key, str | int | float | bool | type(None)):
            raise InputError(f"line {line}: a field's name must be plain text; write it in quotes")
        if key in seen:
            raise InputError(f"line {line}: {key!r} is given twice (first in line {seen[key]}); keep one")
        seen[key] = line
    loader.flatten_mapping(node)
    return loader.construct_mapping(node)


_Loader.add_constructor("tag:yaml.org,2002:map", _mapping)
# YAML 1.1 reads 1e-3 as text, since it lacks a dot; people mean a number.
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$"), list("-+.0123456789")
)


def read_yaml(path: Path) -> dict[str, Any]:
    """Read a YAML file that must hold a mapping; every fault names the file and says what to do."""
    text = read_hand_written(path, "study", "a study's YAML file", MOST_BYTES)
    return parse_yaml(text, str(path))


def parse_yaml(text: str, where: str) -> dict[str, Any]:
    """Parse a mapping; `where` names it in messages."""
    try:
        values = yaml.load(text, Loader=_Loader)  # noqa: S506 (a SafeLoader)
    except InputError as fault:
        raise InputError(f"{where}: {fault}") from None
    except yaml.YAMLError as fault:
        mark = getattr(fault, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark is not None else ""
        raise InputError(f"{where}{line}: is not YAML ({getattr(fault, 'problem', None) or fault})") from None
    except RecursionError:
        raise InputError(f"{where}: is nested too deeply; a study needs fewer than {MOST_DEPTH} levels") from None
    except ValueError as fault:  # an impossible date, an integer of thousands of digits
        raise InputError(f"{where}: holds a value that cannot be read ({fault})") from None
    if not isinstance(values, dict):
        kind = {list: "a list", str: "text", type(None): "empty"}.get(type(values), f"a {type(values).__name__}")
        raise InputError(f"{where}: is {kind}, not a mapping; a study has fields such as name, data and methods")
    _measure(values, where)
    return {str(key): value for key, value in values.items()}


def _measure(value: Any, where: str) -> None:
    """Refuse values that are recursive, too deep, or huge once their aliases are expanded."""
    count = 0

    def visit(value: Any, above: tuple[int, ...]) -> None:
        nonlocal count
        count += 1
        if id(value) in above:
            raise InputError(f"{where}: an alias (*) refers to a value that contains it; a study cannot be recursive")
        if len(above) > MOST_DEPTH:
            raise InputError(f"{where}: is nested too deeply; a study needs fewer than {MOST_DEPTH} levels")
        if count > MOST_VALUES:
            raise InputError(
                f"{where}: holds more than {MOST_VALUES:,} values once aliases (*) are expanded; is it a study?"
            )
        if isinstance(value, dict | list):
            for part in value.values() if isinstance(value, dict) else value:
                visit(part, (*above, id(value)))

    visit(value, ())


def with_changes(values: dict[str, Any], changes: Sequence[str]) -> dict[str, Any]:
    """Return a study's values with `--set key=value` applied; a list's items are named by index or by name.

    >>> with_changes({"seeds": [0], "methods": [{"name": "none"}]}, ["seeds=[1, 2]", "methods.none.rounds=3"])
    {'seeds': [1, 2], 'methods': [{'name': 'none', 'rounds': 3}]}
    """
    for change in changes:
        key, sign, value_text = change.partition("=")
        if not sign or not key:
            raise InputError(f"--set {change!r}: write key=value, such as --set federation.rounds=5")
        value = parse_yaml(f"value: {value_text}", f"--set {key}").get("value")
        values = changed(values, key, value)
    return values


def changed(values: dict[str, Any], key: str, value: Any) -> dict[str, Any]:
    """Return a study's values with one field changed, named by its dotted path."""
    result: dict[str, Any] = _changed(values, key.split("."), value, key)
    return result


def _changed(values: Any, path: list[str], value: Any, key: str) -> Any:
    if not path:
        return value
    step, *rest = path
    if isinstance(values, list):
        named = [index for index, item in enumerate(values) if isinstance(item, dict) and item.get("name") == step]
        if not named and not (step.isdigit() and int(step) < len(values)):
            names = [str(item["name"]) for item in values if isinstance(item, dict) and "name" in item]
            choices = f"choose from: {', '.join(names)}" if names else "its items have no names"
            raise InputError(f"--set {key}: the list has no item {step!r}; {choices}")
        chosen = named[0] if named else int(step)
        return [_changed(item, rest, value, key) if index == chosen else item for index, item in enumerate(values)]
    if values is not None and not isinstance(values, dict):
        raise InputError(f"--set {key}: {step!r} lies inside a plain value ({values!r}); name an existing field")
    return {**(values or {}), step: _changed((values or {}).get(step), rest, value, key)}
