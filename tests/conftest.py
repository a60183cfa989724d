"""What tests share: where the published data sets are, and a cache that no test can spoil."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from published_data import published as published

from fedveil.studies.runner import keep_workers

# A slow machine is not a failure, and runs repeat the same cases; `pytest --hypothesis-profile=search` tries new ones.
settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.register_profile("search", deadline=None)
settings.load_profile("repeatable")


@pytest.fixture(scope="session", autouse=True)
def kept_workers() -> Iterator[None]:
    """Keep worker processes between tests: what they import takes seconds."""
    with keep_workers():
        yield


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Hide every folder of data and use an empty cache, which is returned."""
    monkeypatch.delenv("FEDVEIL_DATA", raising=False)
    cache = tmp_path / "cache"
    monkeypatch.setenv("FEDVEIL_CACHE", str(cache))
    return cache


@pytest.fixture
def third_party(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Return a function that installs a class `Theirs` as a third-party package would: a module and an entry point."""

    def install(group: str, code: str) -> None:
        module = f"their_{group.rpartition('.')[2]}"
        (tmp_path / f"{module}.py").write_text(code)
        info = tmp_path / "theirs-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[{group}]\ntheirs = {module}:Theirs\n")
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.delitem(sys.modules, module, raising=False)
        importlib.invalidate_caches()

    return install
