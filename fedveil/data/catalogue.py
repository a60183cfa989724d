"""Data sources by name: those that come with fedveil, and those of other packages."""

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
    """Return one source; for an unknown name the error suggests the nearest one."""
    kind = plugins.load(GROUP, name, Source)
    try:
        source: Source = kind()
    except Exception as fault:  # an abstract method is missing, or a foreign constructor fails
        raise InputError(f"data set {name!r} cannot be created: {fault}; correct its package") from fault
    for fact in ("name", "description"):
        if not isinstance(getattr(source, fact, None), str):
            raise InputError(f"data set {name!r} states no {fact}; correct its package")
    return source


def load(
    name: str, *, target: str | None = None, sensitive: Sequence[str] | str, seed: int = 0, **options: Any
) -> AttributeData:
    """Load data by the name of its source.

    Args:
        name: one of `available()`.
        target: the task's label; None for data without a task.
        sensitive: the attributes to protect, or a single one.
        seed: for the split, and for everything else that the source draws.
        options: options of that source: see its `read` method, or docs/data.md.
    """
    names = [sensitive] if isinstance(sensitive, str) else list(sensitive)
    return find_source(name).load(target, names, seed=seed, **options)
