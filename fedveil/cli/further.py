"""Commands that other distributions add: entry points of the group `fedveil.commands`, such as `fedveil reproduce`."""

from __future__ import annotations

import typer

from fedveil.core import plugins
from fedveil.core.errors import InputError

ELSEWHERE = {"reproduce": "fedveil-papers"}
"""Commands of ours that come with a distribution of their own."""


def add_commands(app: typer.Typer) -> None:
    """Add every command that is registered, and in place of one that is not here, a line that says how to get it."""
    registered = plugins.registered("fedveil.commands")
    for name in registered:
        app.command(name)(plugins.load("fedveil.commands", name))
    for name, distribution in ELSEWHERE.items():
        if name not in registered:
            app.command(name, hidden=True, context_settings=_ANYTHING)(_absent(name, distribution))


_ANYTHING = {"ignore_unknown_options": True, "allow_extra_args": True}


def _absent(name: str, distribution: str):  # type: ignore[no-untyped-def]
    def command() -> None:
        raise InputError(f"fedveil {name} comes with another package: pip install {distribution}")

    return command
