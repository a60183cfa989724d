"""The tiny study as fixtures."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from tiny_study import TINY, fedveil


@pytest.fixture
def write_study(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes the tiny study with changes, and returns its file."""

    def write(name: str = "tiny.yaml", **changes: Any) -> Path:
        path = tmp_path / name
        path.write_text(yaml.safe_dump({**copy.deepcopy(TINY), **changes}))
        return path

    return write


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of the tiny study, run without interruption; tests must not write to it."""
    folder = tmp_path_factory.mktemp("undisturbed")
    (folder / "tiny.yaml").write_text(yaml.safe_dump(TINY))
    done = fedveil("run", folder / "tiny.yaml", "--out", folder / "out", "--workers", "1")
    assert done.returncode == 0, done.stderr
    return folder / "out"
