"""Data sources by name, ours and third parties'."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fedveil.core import plugins
from fedveil.core.errors import InputError
from fedveil.data.attribute_data import AttributeData
from fedveil.data.source import Source

GROUP = "fedveil.data"


def available() -> list[str]:
    """Return the names of all registered data sources."""
    return list(plugins.registered(GROUP))


def find_source(name: str) -> Source:
    """Return one source; an unknown name is answered with the nearest."""
    kind = plugins.load(GROUP, name, Source)
    try:
        made: Source = kind()
    except Exception as fault:  # an abstract method left out, or whatever a foreign constructor does
        raise InputError(f"data set {name!r} cannot be made: {fault}; its package must be mended") from fault
    for fact in ("name", "description"):
        if not isinstance(getattr(made, fact, None), str):
            raise InputError(f"data set {name!r} states no {fact}; its package must be mended")
    return made


def load(
    name: str, *, target: str | None = None, sensitive: Sequence[str] | str, seed: int = 0, **options: Any
) -> AttributeData:
    """Load data by the name of its source.

    Args:
        name: one of `available()`.
        target: the task's label; None for data without a task.
        sensitive: the attributes to protect, or a single one.
        seed: of the split and of whatever the source draws.
        options: the source's own.
    """
    names = [sensitive] if isinstance(sensitive, str) else list(sensitive)
    return find_source(name).load(target, names, seed=seed, **options)
