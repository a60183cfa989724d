"""Sinks: write a study's figures for TensorBoard or MLflow into its directory; nothing leaves the machine.

The libraries are loaded when a sink is written, not before.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from fedveil.core.errors import InputError, nearest
from fedveil.core.lazy import lazy

if TYPE_CHECKING:
    from fedveil.studies.results import StudyResults

SINKS = ("tensorboard", "mlflow")
"""Each is a module here with `write(results)`, and needs the package of the same name."""


def check_sinks(names: Sequence[str]) -> None:
    """Refuse a sink that does not exist, or whose package is missing, before hours are spent."""
    for name in names:
        if name not in SINKS:
            raise InputError(f"--sink {name!r} is not known: {nearest(name, SINKS)}")
        if find_spec(name) is None:
            raise InputError(f"--sink {name}: its package is not installed; pip install 'fedveil[sinks]'")


def write_sinks(names: Sequence[str], results: StudyResults) -> None:
    """Write a study's finished cells to each sink, in place of what was written before.

    If a sink fails, the study's own results are already written, and the error says where.
    """
    check_sinks(names)
    for name in dict.fromkeys(names):
        try:
            import_module(f"{__name__}.{name}").write(results)
        except Exception as fault:
            why = f"{type(fault).__name__}: {fault}"
            raise InputError(
                f"--sink {name}: cannot be written ({why}); the study's own results are in {results.folder}, untouched"
            ) from fault


__all__ = lazy(__name__)
