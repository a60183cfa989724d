"""Named parts that third parties can add through entry points, without changes to this code."""

from __future__ import annotations

import sys
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from fedveil.core.errors import InputError, nearest

_KINDS = {
    "fedveil.data": "data set",
    "fedveil.attacks": "attacker",
    "fedveil.games": "game",
    "fedveil.shields": "shield",
    "fedveil.engines": "engine",
    "fedveil.commands": "command",
}


def registered(group: str) -> dict[str, EntryPoint]:
    """Return the registered parts of a group ("fedveil.data", "fedveil.attacks") by name, not yet loaded."""
    return dict(_on_path(group, tuple(sys.path)))


@cache
def _on_path(group: str, path: tuple[str, ...]) -> dict[str, EntryPoint]:
    """Read the metadata of all installed packages, which takes some 40 ms, once for each search path."""
    return {point.name: point for point in sorted(entry_points(group=group), key=lambda point: point.name)}


def load(group: str, name: str, base: type | None = None) -> Any:
    """Load one registered part; with `base`, it must be a subclass of it.

    An unknown name, a part whose import fails for any reason, and a part of another kind are each an `InputError`.
    """
    parts, kind = registered(group), _KINDS.get(group, group)
    if name not in parts:
        raise InputError(f"{kind} {name!r} is not known: {nearest(name, parts)}")
    point = parts[name]
    try:
        part = point.load()
    except (Exception, SystemExit) as fault:
        why = f"{type(fault).__name__}: {fault}"
        raise InputError(f"{kind} {name!r} ({point.value}) cannot be loaded: {why}; reinstall its package") from fault
    if base is not None and not (isinstance(part, type) and issubclass(part, base)):
        raise InputError(
            f"{kind} {name!r} ({point.value}) is not a {base.__module__}.{base.__qualname__}; correct its package"
        )
    return part
