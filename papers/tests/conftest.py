"""Tiny presets, run as a person would run them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from fedveil_papers import preset as presets
from published_data import published as published
from tiny_preset import TAPPFL
from tiny_study import TINY, fedveil_here, last_json

Write = Callable[..., str]


@pytest.fixture
def write_preset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Return a function that writes a tiny preset and returns its name; `study` changes the tiny study's fields."""
    monkeypatch.setattr(presets, "FOLDER", tmp_path / "presets")

    def write(shows: Any, paper: list[dict[str, Any]] | None = None, **study: Any) -> str:
        values = {**TINY, "federation": {"devices": 5, "rounds": 2}, "methods": [TAPPFL], **study, "name": "ours/tiny"}
        (tmp_path / "presets" / "ours").mkdir(parents=True)
        preset = {"title": "tiny", "study": values, "scales": {}, "shows": shows, "paper": paper or []}
        (tmp_path / "presets" / "ours" / "tiny.yaml").write_text(yaml.safe_dump(preset, allow_unicode=True))
        return "ours/tiny"

    return write


@pytest.fixture
def reproduced(write_preset: Write, tmp_path: Path) -> Callable[..., tuple[dict[str, Any], Path, str]]:
    """Return a function that runs a tiny preset and returns its JSON, its directory and its printed text."""

    def run(shows: Any, paper: list[dict[str, Any]] | None = None, **study: Any) -> tuple[dict[str, Any], Path, str]:
        name = write_preset(shows, paper, **study)
        done = fedveil_here("reproduce", name, "--out", tmp_path / "out", "--workers", "1", "--json")
        assert done.returncode == 0, done.stderr
        return last_json(done), tmp_path / "out", done.stderr

    return run
