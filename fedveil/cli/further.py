"""Commands that other distributions add through entry points of the group `fedveil.commands`."""

from __future__ import annotations

from collections.abc import Callable

import typer

from fedveil.core import plugins
from fedveil.core.errors import InputError

ELSEWHERE = {"reproduce": "fedveil-papers"}
"""Commands of ours that are in a distribution of their own."""

_ANYTHING = {"ignore_unknown_options": True, "allow_extra_args": True}


def add_commands(app: typer.Typer) -> None:
    """Add every registered command; one of ours that is not installed says in one line how to install it.

    A package cannot replace a command that exists. One that cannot be loaded says so when its command is used, and
    leaves all other commands as they are.
    """
    existing = {command.name for command in app.registered_commands} | {group.name for group in app.registered_groups}
    added = [name for name in plugins.registered("fedveil.commands") if name not in existing]
    unusable = {
        name: f"fedveil {name} comes with another package: pip install {distribution}"
        for name, distribution in ELSEWHERE.items()
        if name not in added
    }
    for name in added:
        try:
            app.command(name)(plugins.load("fedveil.commands", name))
        except InputError as fault:
            unusable[name] = str(fault)
    for name, why in unusable.items():
        app.command(name, hidden=True, context_settings=_ANYTHING)(_refusal(why))


def _refusal(why: str) -> Callable[[], None]:
    """Return a command that only says why it cannot run."""

    def command() -> None:
        raise InputError(why)

    return command
