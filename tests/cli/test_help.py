"""Help is quick: it loads none of the libraries that take seconds."""

from __future__ import annotations

import json
import subprocess
import sys

import typer

from fedveil.cli import app

HEAVY = ("torch", "sklearn", "scipy", "pandas", "pyarrow", "pydantic", "matplotlib", "plotly", "flwr")

SHOW_HELP = """
import json, sys
from fedveil.cli import main
for words in json.loads(sys.argv[1]):
    try:
        main([*words, "--help"])
    except SystemExit as stop:
        assert stop.code == 0, words
print(json.dumps(sorted(set(json.loads(sys.argv[2])) & set(sys.modules))))
"""


def commands() -> list[list[str]]:
    """Return every command as the list of words that call it."""
    calls: list[list[str]] = []

    def walk(command: object, words: list[str]) -> None:
        calls.append(words)
        for name, inner in getattr(command, "commands", {}).items():
            walk(inner, [*words, name])

    walk(typer.main.get_command(app), [])
    return calls


def test_help_of_every_command_loads_nothing_heavy() -> None:
    assert ["flower", "new"] in commands()
    shown = subprocess.run(
        [sys.executable, "-c", SHOW_HELP, json.dumps(commands()), json.dumps(HEAVY)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "--sensitive" in shown
    assert json.loads(shown.splitlines()[-1]) == []
