"""What every command does alike when it speaks.

With `--json` the last line of stdout is exactly one single-line object; everything else goes to stderr.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.console import Console

from fedveil.core.files import plain

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object as the last line of stdout.")]


def console_for(as_json: bool) -> Console:
    """Return where people read: stdout, or stderr when stdout belongs to a program.

    Where nobody sits at a terminal the lines are wide enough for every table, and unwrapped.
    """
    console = Console(stderr=as_json, highlight=False, soft_wrap=False)
    return console if console.is_terminal else Console(stderr=as_json, highlight=False, width=140)


def print_json(found: dict[str, Any]) -> None:
    """Print one object on one line; figures that are not numbers become null, as JSON has no NaN."""
    typer.echo(json.dumps(plain(found), ensure_ascii=False, allow_nan=False))


@contextmanager
def progress(console: Console) -> Iterator[Any]:
    """Yield a function that shows what is being done, on a terminal only."""
    if not console.is_terminal:
        yield lambda line: None
        return
    with console.status("starting …") as status:
        yield lambda line: status.update(line)
