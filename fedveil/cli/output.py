"""What every command does alike when it speaks.

With `--json` the last line of stdout is exactly one single-line object; everything else goes to stderr.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.console import Console

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object as the last line of stdout.")]


def console_for(as_json: bool) -> Console:
    """Return where people read: stdout, or stderr when stdout belongs to a program.

    Where nobody sits at a terminal the lines are wide enough for every table, and unwrapped.
    """
    console = Console(stderr=as_json, highlight=False, soft_wrap=False)
    return console if console.is_terminal else Console(stderr=as_json, highlight=False, width=140)


def print_json(found: dict[str, Any]) -> None:
    """Print one object on one line; figures that are not numbers become null, as JSON has no NaN."""
    typer.echo(json.dumps(_plain(found), ensure_ascii=False, allow_nan=False))


@contextmanager
def progress(console: Console) -> Iterator[Any]:
    """Yield a function that shows what is being done, on a terminal only."""
    if not console.is_terminal:
        yield lambda line: None
        return
    with console.status("starting …") as status:
        yield lambda line: status.update(line)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value
