"""Where the published data sets are; tests that need one are skipped where it is missing."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]


def data_root() -> Path | None:
    """Return FEDVEIL_DATA, or the folder shared/data beside the checkout, or None."""
    chosen = os.environ.get("FEDVEIL_DATA")
    if chosen:
        return Path(chosen)
    beside = REPOSITORY.parent / "shared" / "data"
    return beside if beside.is_dir() else None


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Return a function that finds a published data set's folder, or skips the test and says so."""
    root = data_root()

    def find(name: str) -> Path:
        if root is None or not (root / name).is_dir():
            pytest.skip(f"the data set {name} is missing: set FEDVEIL_DATA")
        monkeypatch.setenv("FEDVEIL_DATA", str(root))
        return root / name

    return find
