"""The public surface: what `dir()` lists, what docs/api.md names, and what `import fedveil` loads."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import fedveil

API = Path(__file__).resolve().parents[1] / "docs" / "api.md"
HEAVY = ("numpy", "torch", "pandas", "sklearn", "scipy", "pyarrow", "pydantic", "rich", "typer", "plotly", "flwr")


def public_modules(module: ModuleType = fedveil) -> dict[str, ModuleType]:
    """Return the modules that are reached from `fedveil` through public names, by name."""
    modules = {module.__name__: module}
    if is_package(module):
        for name in dir(module):
            value = getattr(module, name)
            if isinstance(value, ModuleType):
                assert value.__name__ == f"{module.__name__}.{name}"
                modules |= public_modules(value)
    return modules


def is_package(module: ModuleType) -> bool:
    return hasattr(module, "__path__")


def public_names(module: ModuleType) -> set[str]:
    """Return a package's `dir()`, or what a plain module defines itself."""
    if is_package(module):
        return set(dir(module))
    names: set[str] = set()
    for statement in ast.parse(inspect.getsource(module)).body:
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            names.add(statement.name)
        elif isinstance(statement, ast.Assign | ast.AnnAssign):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return {name for name in names if not name.startswith("_")}


def documented() -> dict[str, list[str]]:
    """Return the names in the tables of docs/api.md, by the module that heads the section."""
    names: dict[str, list[str]] = {}
    for section in re.split(r"^## ", API.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        heading, _, text = section.partition("\n")
        rows = re.findall(r"^\| (`[^|]*`) \|", text, re.MULTILINE)
        names[heading.strip("`")] = re.findall(r"`(\w+)`", " ".join(rows))
    return names


MODULES = public_modules()
PACKAGES = ["fedveil", *(module.name for module in pkgutil.walk_packages(fedveil.__path__, "fedveil.") if module.ispkg)]


@pytest.mark.parametrize("name", PACKAGES)
def test_a_package_lists_its_public_names_and_nothing_else(name: str) -> None:
    package = importlib.import_module(name)
    assert dir(package) == package.__all__ == sorted(package.__all__)
    for public in dir(package):
        assert not public.startswith("_")
        assert getattr(package, public) is not None
    assert dir(package) == package.__all__  # also after all of them are loaded
    exec(f"from {name} import *", {})


@pytest.mark.parametrize("name", sorted(MODULES))
def test_the_page_names_exactly_what_is_public(name: str) -> None:
    assert name in documented(), "it has no section in docs/api.md"
    names = documented()[name]
    assert len(names) == len(set(names))
    assert set(names) == public_names(MODULES[name])


def test_the_page_has_no_other_sections() -> None:
    assert set(documented()) == set(MODULES)


def test_importing_fedveil_is_light() -> None:
    code = f"""
import sys, time
start = time.process_time()
import fedveil
spent = time.process_time() - start
packages = [name for name in dir(fedveil) if name not in ("Federation", "Run", "View", "InputError", "view", "zoos")]
for name in packages:
    dir(getattr(fedveil, name))
print(spent, [name for name in {HEAVY!r} if name in sys.modules])
"""
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    spent, heavy = printed.split(maxsplit=1)
    assert heavy.strip() == "[]"
    assert float(spent) < 0.1  # seconds of the processor


def test_a_misspelt_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"module 'fedveil\.games' has no attribute 'TAPFL'"):
        _ = fedveil.games.TAPFL  # type: ignore[attr-defined]


def test_objects_are_shown_in_one_line() -> None:
    data = fedveil.data.load("synthetic", target="y", sensitive="u", n=60)
    codes = np.arange(60) % 2
    shown = [
        data,
        data.attribute("u"),
        fedveil.data.IID(devices=4).deal(data, seed=0),
        fedveil.data.find_source("adult"),
        fedveil.attacks.Labelled(data.x, codes),
        fedveil.attacks.panel("quick"),
        fedveil.core.Estimate(0.5, 0.4, 0.6),
        fedveil.certificates.GaussianRelease(1.0, 2.0, norm_enforced_at_release=True).certify_advantage(),
        fedveil.certificates.HeldOutRate(np.ones(60), 2.0, np.log(np.full((60, 2), 0.5)), codes, codes, 2),
    ]
    judgement = fedveil.attacks.panel(["logistic"], draws=100).judge(fedveil.View.of_data(data))
    for value in (*shown, judgement, judgement.worst):
        assert "\n" not in repr(value)
        assert repr(value).startswith(type(value).__name__)
        assert len(repr(value)) < 1000
