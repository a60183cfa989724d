"""`fedveil schema`: the JSON schema with which an editor completes a study."""

from __future__ import annotations

import json
from typing import Annotated

import typer


def schema(
    every: Annotated[
        bool, typer.Option("--all", help="Include the games, shields, … of other installed packages.")
    ] = False,
) -> None:
    """Print the JSON schema of a study, for editors and checkers."""
    from fedveil.config.schema import study_schema

    typer.echo(json.dumps(study_schema(third_parties=every), indent=1, ensure_ascii=False))
