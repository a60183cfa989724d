"""What tests share: where the published data sets are, and a cache that no test can spoil."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from fedveil.studies.runner import keep_workers

# A busy machine is no failure, and two runs try the same cases. `pytest --hypothesis-profile=search` tries new ones.
settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.register_profile("search", deadline=None)
settings.load_profile("repeatable")

REPOSITORY = Path(__file__).resolve().parents[1]


def data_root() -> Path | None:
    """Return FEDVEIL_DATA, or the folder shared/data beside the checkout, or None."""
    chosen = os.environ.get("FEDVEIL_DATA")
    if chosen:
        return Path(chosen)
    beside = REPOSITORY.parent / "shared" / "data"
    return beside if beside.is_dir() else None


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Return a function that finds a published data set's folder, or skips the test aloud."""
    root = data_root()

    def find(name: str) -> Path:
        if root is None or not (root / name).is_dir():
            pytest.skip(f"the data set {name} is not here: set FEDVEIL_DATA")
        monkeypatch.setenv("FEDVEIL_DATA", str(root))
        return root / name

    return find


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
    """Return a function that installs a class `Theirs` as another's package would: a module and an entry point."""

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
