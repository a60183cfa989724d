"""Commands of other packages: they join by entry points, and a bad one harms nothing but itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CODE = "def command() -> None:\n    'Say hello.'\n    print('hello')\n"


@pytest.fixture
def fedveil_with(tmp_path: Path):
    """Return a function that runs fedveil beside an installed package that has some entry points for commands."""

    def run(points: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "their_commands.py").write_text(CODE)
        info = tmp_path / "theirs-1.0.dist-info"
        info.mkdir(exist_ok=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[fedveil.commands]\n{points}\n")
        program = "import sys; sys.path.insert(0, sys.argv.pop(1)); from fedveil.cli import main; main(sys.argv[1:])"
        return subprocess.run(
            [sys.executable, "-c", program, str(tmp_path), *arguments], capture_output=True, text=True, check=False
        )

    return run


def test_a_command_joins_by_its_entry_point(fedveil_with) -> None:
    assert fedveil_with("greet = their_commands:command", "greet").stdout == "hello\n"


def test_a_command_that_cannot_be_loaded_is_refused_in_one_line_and_others_work(fedveil_with) -> None:
    points = "greet = their_commands:no_such_function\nhail = no_such_module:command"
    assert fedveil_with(points, "--version").returncode == 0
    for name in ("greet", "hail"):
        refused = fedveil_with(points, name, "--any", "argument")
        assert refused.returncode == 2
        assert refused.stdout == ""
        assert refused.stderr.startswith(f"fedveil: command {name!r} (")
        assert len(refused.stderr.splitlines()) == 1


def test_no_package_can_replace_a_command_of_fedveil(fedveil_with) -> None:
    for name in ("ledger", "data"):
        shown = fedveil_with(f"{name} = their_commands:command", name, "--help")
        assert shown.returncode == 0
        assert "Say hello" not in shown.stdout
