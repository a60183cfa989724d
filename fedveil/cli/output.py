"""What commands share: options, and how they print.

With `--json` the last line of stdout is exactly one single-line object; everything else goes to stderr.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from fedveil.core.files import plain

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object as the last line of stdout.")]
OutOption = Annotated[Path | None, typer.Option("--out", help="Where results go (default: runs/<name>).")]
WorkersOption = Annotated[
    int | None,
    typer.Option(
        "--workers", min=0, max=256, help="Processes at the same time (default: one per core; 0: only this one)."
    ),
]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", help="Change a field: key=value, such as federation.rounds=5; repeatable.")
]
FreshOption = Annotated[bool, typer.Option("--fresh", help="Discard the directory's results first.")]
PanelOption = Annotated[str, typer.Option(help="full, quick, or attackers by name: logistic,boosting.")]
DeviceOption = Annotated[str, typer.Option(help="Where attackers' networks are trained: auto, cpu, cuda, mps.")]


def listed(text: str) -> list[str]:
    """Split an option's value at its commas.

    >>> listed("age, zip,")
    ['age', 'zip']
    """
    return [name.strip() for name in text.split(",") if name.strip()]


def console_for(as_json: bool) -> Console:
    """Return the console that people read: stdout, or stderr if stdout is for a program.

    If it is not a terminal, lines are wide enough for every table and are not wrapped.
    """
    console = Console(stderr=as_json, highlight=False, soft_wrap=False)
    return console if console.is_terminal else Console(stderr=as_json, highlight=False, width=140)


def print_json(value: dict[str, Any]) -> None:
    """Print one object on one line; NaN and infinities become null, as JSON has neither."""
    typer.echo(json.dumps(plain(value), ensure_ascii=False, allow_nan=False))


@contextmanager
def progress(console: Console) -> Iterator[Callable[[str], None]]:
    """Yield a function that shows what is being done, on a terminal only."""
    if not console.is_terminal:
        yield lambda line: None
        return
    with console.status("starting …") as status:
        yield lambda line: status.update(line)
