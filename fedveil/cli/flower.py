"""`fedveil flower`: games of a study as a Flower app."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Games on Flower.", no_args_is_help=True)


@app.callback()
def _flower() -> None:
    pass


@app.command("new")
def new(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new folder for the app.")],
    study: Annotated[
        Path | None, typer.Option(help="The study whose games it plays; TAPPFL on Adult with 2 devices if unsaid.")
    ] = None,
) -> None:
    """Write a ready Flower app: server and nodes of a study's games."""
    from importlib.util import find_spec

    from fedveil.core.errors import InputError

    if find_spec("flwr") is None:
        raise InputError("Flower is not installed: pip install 'fedveil[flower]'")
    from fedveil.config.study import make_study, read_study
    from fedveil.flower.new_app import EXAMPLE, write_app

    written = write_app(folder, make_study(EXAMPLE) if study is None else read_study(study))
    for path in written:
        typer.echo(path)
    typer.echo(f"Next: start a SuperLink and SuperNodes, then: flwr run {folder} (see {folder / 'README.md'})")
