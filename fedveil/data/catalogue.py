"""Data sources by name, ours and third parties'."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fedveil import plugins
from fedveil.data.attribute_data import AttributeData
from fedveil.data.source import Source
from fedveil.errors import InputError

GROUP = "fedveil.data"


def available() -> list[str]:
    """Return the names of all registered data sources."""
    return list(plugins.found(GROUP))


def find_source(name: str) -> Source:
    """Return one source; an unknown name is answered with the nearest."""
    made = plugins.load(GROUP, name)()
    if not isinstance(made, Source):
        raise InputError(f"data {name!r} is registered but is no fedveil.data.Source; its package must be mended")
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
