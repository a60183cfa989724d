"""Commands that other distributions add through entry points of the group `fedveil.commands`."""

from __future__ import annotations

from collections.abc import Callable

import typer

from fedveil.core import plugins
from fedveil.core.errors import InputError

ELSEWHERE = {"reproduce": "fedveil-papers"}
"""Commands of fedveil's own that are in another distribution."""

_ANYTHING = {"ignore_unknown_options": True, "allow_extra_args": True}


def add_commands(app: typer.Typer) -> None:
    """Add every registered command; a command in `ELSEWHERE` that is not installed says how to install it."""
    registered = plugins.registered("fedveil.commands")
    for name in registered:
        app.command(name)(plugins.load("fedveil.commands", name))
    for name, distribution in ELSEWHERE.items():
        if name not in registered:
            app.command(name, hidden=True, context_settings=_ANYTHING)(_absent(name, distribution))


def _absent(name: str, distribution: str) -> Callable[[], None]:
    def command() -> None:
        raise InputError(f"fedveil {name} comes with another package: pip install {distribution}")

    return command
