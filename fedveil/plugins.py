"""Named parts that third parties can add through entry points, without touching our code."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import Any

from fedveil.errors import InputError, nearest

_KINDS = {
    "fedveil.data": "data set",
    "fedveil.attacks": "attacker",
    "fedveil.games": "game",
    "fedveil.shields": "shield",
}


def found(group: str) -> dict[str, EntryPoint]:
    """Return the registered parts of a group ("fedveil.data", "fedveil.attacks") by name, unloaded."""
    return {point.name: point for point in sorted(entry_points(group=group), key=lambda point: point.name)}


def load(group: str, name: str) -> Any:
    """Load one registered part; an unknown name or a part that cannot be imported is an `InputError`."""
    parts = found(group)
    if name not in parts:
        raise InputError(f"{_KINDS.get(group, group)} {name!r} is not known: {nearest(name, parts)}")
    point = parts[name]
    try:
        return point.load()
    except (ImportError, AttributeError) as fault:
        raise InputError(
            f"{_KINDS.get(group, group)} {name!r} ({point.value}) cannot be loaded: {fault}; reinstall its package"
        ) from fault
