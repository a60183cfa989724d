"""The regulator's walk-through in docs/audit.md, run as it is printed, and its table of options."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import typer

from fedveil.cli import app, main

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "audit.md").read_text(encoding="utf-8")


def test_the_walk_through_finds_the_vendor_curious_and_the_other_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    exec(re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)[0], {"__name__": "example"})
    commands = re.findall(r"^ +(fedveil audit \w+\.csv .*)$", PAGE, re.MULTILINE)
    printed = []
    for command in commands:
        with pytest.raises(SystemExit) as stop:
            main([*shlex.split(command)[1:], "--panel", "quick"])
        assert stop.value.code == 0
        printed.append(capsys.readouterr().out)
    assert [printed[0].split(".")[0], printed[1].split(".")[0]] == ["s: CURIOUS", "s: STANDARD"]
    assert "CURIOUS" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_the_table_of_options_is_complete() -> None:
    table = " ".join(re.findall(r"^\| (`--.*?) \|", PAGE, re.MULTILINE))
    options = next(command for command in typer.main.get_command(app).commands.values() if command.name == "audit")
    names = {name for parameter in options.params for name in parameter.opts if name.startswith("--")}
    assert set(re.findall(r"--[a-z-]+", table)) == names | {"--help"}
