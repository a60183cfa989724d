"""Packages whose names are loaded when they are first used, so that `import fedveil` takes no time."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

from fedveil.core.errors import InputError

Surface = tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]
"""A package's `__getattr__`, `__dir__` and `__all__`."""


def lazy(package: str, needs: dict[str, str] | None = None) -> Surface:
    """Return `__getattr__`, `__dir__` and `__all__` of a package, made of the import statements in its own source.

    A package writes down its public names once, as imports that a type checker reads too:

        if TYPE_CHECKING:
            from fedveil.games.tappfl import TAPPFL as TAPPFL

        __getattr__, __dir__, __all__ = lazy(__name__)

    Names imported under `if TYPE_CHECKING` are loaded when they are first asked for; those imported outside it are
    loaded at once, which is needed where a name is also the name of a submodule: Python would hide it behind that.
    Every public name is spelt `X as X`, the form in which type checkers take an import for an export.

    Args:
        package: the package's `__name__`.
        needs: distributions that are not always installed, by the module they bring; a name that fails for want of
            one is an `InputError` that says what to install.
    """
    homes = _exports(package)

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, original = homes[name]
        try:
            if original is None:
                return import_module(module)
            return getattr(import_module(module), original)
        except ModuleNotFoundError as fault:
            lacking = (fault.name or "").partition(".")[0]
            if lacking not in (needs or {}):
                raise
            raise InputError(f"{package}.{name}: needs {lacking}; pip install '{(needs or {})[lacking]}'") from None

    return find, lambda: sorted(homes), sorted(homes)


def _exports(package: str) -> dict[str, tuple[str, str | None]]:
    """Return where each exported name lives: its module and its name there, None for a module itself."""
    spec = sys.modules[package].__spec__
    source = spec.loader.get_source(package) if spec is not None and spec.loader is not None else None  # type: ignore[attr-defined]
    homes: dict[str, tuple[str, str | None]] = {}
    for statement in ast.walk(ast.parse(source or "")):
        if isinstance(statement, ast.ImportFrom) and statement.module:
            for alias in statement.names:
                if alias.asname == alias.name:
                    submodule = statement.module == package
                    homes[alias.name] = (
                        (f"{package}.{alias.name}", None) if submodule else (statement.module, alias.name)
                    )
    return homes
