"""A preset that cannot show what it names is refused in one line, before anything is run."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tiny_preset import GAME, TAPPFL
from tiny_study import fedveil_here, last_json

Write = Callable[..., str]


@pytest.mark.parametrize(
    ("shows", "study", "message"),
    [
        ("mapps", {}, "did you mean 'maps'?"),
        ({"kind": "maps", "methd": "tappfl"}, {}, "did you mean 'method'?"),
        (["maps"], {}, "is not allowed; name one of"),
        ({"kind": "losses-by-strength", "rounds": 0}, {}, "at least one loss and one round"),
        ({"kind": "losses-by-strength", "method": "tapfl"}, {}, "did you mean 'tappfl'?"),
        ({"kind": "losses-by-strength", "losses": ["MMD"]}, {}, "needs the loss 'MMD'"),
        ("losses-by-strength", {"methods": [{**TAPPFL, "strengths": [0, 1]}]}, "give at least three"),
        ("maps", {"drop_columns": [1]}, "let drop_columns include 0"),
        ({"kind": "matched-leakage", "levels": [0.5, 1.5]}, {}, "levels in (0, 1)"),
        ("matched-leakage", {"methods": [{"name": "tappfl", "game": GAME}]}, "has two; give some"),
        ("method-matrix", {}, "needs method 'none'"),
        ({"kind": "method-matrix", "reference": "tappfl"}, {}, "choose another reference"),
        (
            {"kind": "method-matrix", "names": {"adv": "AT"}},
            {"methods": [{"name": "none", "game": "undefended"}]},
            "needs method 'adv'",
        ),
    ],
)
def test_refused_before_anything_runs(
    write_preset: Write, tmp_path: Path, shows: Any, study: dict[str, Any], message: str
) -> None:
    name = write_preset(shows, **study)
    done = fedveil_here("reproduce", name, "--out", tmp_path / "out")
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_without_matplotlib_it_says_so_and_succeeds(
    write_preset: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    name = write_preset("losses-by-strength")
    done = fedveil_here("reproduce", name, "--out", tmp_path / "out", "--workers", "1", "--json")
    assert done.returncode == 0
    assert "matplotlib is not installed" in done.stderr
    result = last_json(done)
    assert result["shows"]["picture"] is None
    assert result["shows"]["panels"]
    assert not (tmp_path / "out" / "tiny.png").exists()
