"""`fedveil flower`: a study's games as a Flower app."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from fedveil.core.errors import InputError

app = typer.Typer(help="Games on Flower.", no_args_is_help=True)


@app.callback()
def _flower() -> None:
    # The group has a single command; without this callback, typer would drop the word `new`.
    pass


@app.command("new")
def new(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new folder for the app.")],
    study: Annotated[
        Path | None, typer.Option(help="The study whose games it plays (default: TAPPFL on Adult with 2 devices).")
    ] = None,
) -> None:
    """Write a complete Flower app: the server and the nodes of a study's games."""
    if find_spec("flwr") is None:
        raise InputError("Flower is not installed: pip install 'fedveil[flower]'")
    from fedveil.config.study import make_study, read_study
    from fedveil.flower.new_app import EXAMPLE, write_app

    for path in write_app(folder, make_study(EXAMPLE) if study is None else read_study(study)):
        typer.echo(path)
    typer.echo(f"Next: start a SuperLink and SuperNodes, then: flwr run {folder} (see {folder / 'README.md'})")
