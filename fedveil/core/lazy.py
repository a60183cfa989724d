"""Packages that load a public name when it is first used, so that `import fedveil` takes almost no time."""

from __future__ import annotations

import ast
import sys
from collections.abc import Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

from fedveil.core.errors import InputError

Home = tuple[str, str | None]
"""The module that defines a public name, and its name there; None if the public name is a submodule itself."""


def lazy(package: str, needs: Mapping[str, str] | None = None) -> list[str]:
    """Make a package lazy, and return its public names, sorted: the package's `__all__`, and what `dir()` lists.

    A package states its public names once, as imports that type checkers and editors read as well:

        if TYPE_CHECKING:
            from fedveil.games.tappfl import TAPPFL as TAPPFL

        __all__ = lazy(__name__)

    `X as X` is the form that type checkers treat as an export; a submodule is exported in the same way,
    by `from fedveil.shields import recup as recup`. Public functions and classes that are defined in the package's
    `__init__.py` count as well. A public name may also be the name of a submodule (the function
    `fedveil.attacks.panel` and the file panel.py): `fedveil.attacks.panel` is then the function, and
    `from fedveil.attacks.panel import …` still imports from the file.

    Args:
        package: the package's `__name__`.
        needs: for each module that may not be installed, the name to pass to pip; if it is missing, using a name that
            needs it is an `InputError` that says what to install.
    """
    module = sys.modules[package]
    spec = module.__spec__
    source = spec.loader.get_source(package) if spec is not None and spec.loader is not None else None  # type: ignore[attr-defined]
    homes = _exports(package, ast.parse(source or ""))
    vars(module).update(_homes=homes, _needs=dict(needs or {}))
    module.__class__ = _LazyPackage
    return sorted(homes)


class _LazyPackage(ModuleType):
    """A package that looks its public names up where they are defined."""

    _homes: dict[str, Home]
    _needs: dict[str, str]

    def __getattr__(self, name: str) -> Any:
        if name not in self._homes:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        module, original = self._homes[name]
        try:
            value = import_module(module) if original is None else getattr(import_module(module), original)
        except ModuleNotFoundError as fault:
            missing = (fault.name or "").partition(".")[0]
            if missing not in self._needs:
                raise
            raise InputError(f"{self.__name__}.{name}: needs {missing}; pip install '{self._needs[missing]}'") from None
        vars(self)[name] = value
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        # Python binds every imported submodule to its package; that must not hide a public name of the same spelling.
        if isinstance(value, ModuleType) and self._homes.get(name, (None, None))[1] is not None:
            return
        super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted(self._homes)


def _exports(package: str, tree: ast.Module) -> dict[str, Home]:
    """Return the home of each public name, from the package's source."""
    homes: dict[str, Home] = {}
    for statement in ast.walk(tree):
        if isinstance(statement, ast.ImportFrom) and statement.module:
            for alias in statement.names:
                if alias.asname == alias.name:
                    submodule = statement.module == package
                    homes[alias.name] = (
                        (f"{package}.{alias.name}", None) if submodule else (statement.module, alias.name)
                    )
    for definition in tree.body:
        if isinstance(definition, ast.FunctionDef | ast.ClassDef) and not definition.name.startswith("_"):
            homes[definition.name] = (package, definition.name)
    return homes
