"""The floor plan: a package imports only from those before it, also inside functions and for types."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
ORDER = (
    *("core", "data", "certificates", "updates", "games", "shields", "view", "federation", "attacks", "rate", "config"),
    *("zoos", "studies", "report", "audit", "flower", "cli", "__main__", "fedveil_papers"),
)
FILES = sorted([*REPOSITORY.glob("fedveil/**/*.py"), *REPOSITORY.glob("papers/fedveil_papers/**/*.py")])


def room(module: str) -> str | None:
    """Return the package in the order that a module belongs to; None for fedveil itself, which holds the version."""
    top, *rest = module.split(".")
    return top if top == "fedveil_papers" else rest[0] if rest else None


def imports(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield every import, at any depth, with its line number."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "imports are absolute"
            module = node.module or ""
            names = [f"fedveil.{alias.name}" for alias in node.names] if module == "fedveil" else [module]
            yield from ((node.lineno, name) for name in names)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(REPOSITORY).as_posix())
def test_a_package_imports_only_from_those_before_it(path: Path) -> None:
    parts = (
        path.relative_to(REPOSITORY / "papers" if "fedveil_papers" in path.parts else REPOSITORY).with_suffix("").parts
    )
    importing = room(".".join(part for part in parts if part != "__init__"))
    if importing is None:  # fedveil/__init__.py lists the public names and loads only the helper for lazy imports
        return
    for line, module in imports(ast.parse(path.read_text("utf-8"))):
        if module.partition(".")[0] not in ("fedveil", "fedveil_papers") or module in (
            "fedveil",
            "fedveil.__version__",
        ):
            continue
        imported = room(module)
        assert imported in ORDER, f"{path.name}:{line}: import {module} from the package that defines it"
        assert ORDER.index(imported) <= ORDER.index(importing), f"{path.name}:{line}: {importing} imports {module}"
