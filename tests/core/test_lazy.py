"""A lazy package shows its public names, loads them when they are used, and hides none behind a submodule."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from fedveil.core.errors import InputError

INIT = """
from typing import TYPE_CHECKING

from fedveil.core.lazy import lazy

if TYPE_CHECKING:
    from lazy_example import tools as tools
    from lazy_example.shapes import Circle as Circle
    from lazy_example.shapes import Square
    from lazy_example.area import area as area
    from lazy_example.far import distance as distance


def defined_here():
    return "here"


def _private():
    pass


__all__ = lazy(__name__, needs={"surely_not_installed": "example[far]"})
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    folder = tmp_path / "lazy_example"
    folder.mkdir()
    (folder / "__init__.py").write_text(INIT)
    (folder / "tools.py").write_text("")
    (folder / "shapes.py").write_text("class Circle: pass\nclass Square: pass\n")
    (folder / "area.py").write_text("def area(): return 1\ndef other(): return 2\n")
    (folder / "far.py").write_text("import surely_not_installed\ndef distance(): pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield import_module("lazy_example")
    for name in [name for name in sys.modules if name.partition(".")[0] == "lazy_example"]:
        del sys.modules[name]


def test_public_names_are_those_written_as_exports_and_defined_in_the_package(package: ModuleType) -> None:
    names = ["Circle", "area", "defined_here", "distance", "tools"]
    assert package.__all__ == names
    assert dir(package) == names
    assert not [name for name in sys.modules if name.startswith("lazy_example.")]


def test_a_name_is_loaded_when_it_is_used(package: ModuleType) -> None:
    assert package.Circle.__module__ == "lazy_example.shapes"
    assert package.tools.__name__ == "lazy_example.tools"
    assert package.defined_here() == "here"
    assert dir(package) == package.__all__
    with pytest.raises(AttributeError, match="module 'lazy_example' has no attribute 'Cicle'"):
        _ = package.Cicle


@pytest.mark.parametrize("module_first", [True, False])
def test_a_submodule_does_not_hide_a_public_name_of_the_same_spelling(package: ModuleType, module_first: bool) -> None:
    if module_first:
        import_module("lazy_example.area")
    assert package.area() == 1
    assert import_module("lazy_example.area").other() == 2
    assert package.area() == 1


def test_a_missing_distribution_is_one_line_that_says_what_to_install(package: ModuleType) -> None:
    message = r"lazy_example\.distance: needs surely_not_installed; pip install 'example\[far\]'"
    with pytest.raises(InputError, match=message):
        _ = package.distance
