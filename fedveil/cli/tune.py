"""`fedveil tune`: the strength that reaches a target leakage."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from fedveil.cli.output import JsonOption, OutOption, SetOption, WorkersOption, console_for, print_json
from fedveil.cli.run import repeat_command
from fedveil.core.errors import InputError


def tune(
    study: Annotated[Path, typer.Argument(help="The study's YAML file.", show_default=False)],
    leakage: Annotated[float, typer.Option("--leakage", help="The balanced accuracy to stay below, on validation.")],
    method: Annotated[
        str | None, typer.Option("--method", help="One method (default: all that have several strengths).")
    ] = None,
    attribute: Annotated[
        str | None, typer.Option("--attribute", help="The attribute, if the study has several.")
    ] = None,
    task: Annotated[str | None, typer.Option("--task", help="The task (default: the first).")] = None,
    steps: Annotated[int, typer.Option("--steps", min=0, max=50, help="The maximum number of bisections.")] = 8,
    tolerance: Annotated[
        float, typer.Option("--tolerance", min=0.0, help="Leakage this far below the target is close enough.")
    ] = 0.005,
    out: OutOption = None,
    workers: WorkersOption = None,
    changes: SetOption = None,
    json: JsonOption = False,
) -> None:
    """Find the strength that reaches a target leakage by bisection on validation people, or say that none does."""
    from fedveil.cli.progress import shown_progress
    from fedveil.config.study import read_study
    from fedveil.studies.check import checked
    from fedveil.studies.runner import keep_workers
    from fedveil.studies.tune import UNREACHABLE
    from fedveil.studies.tune import tune as search

    if not 0 < leakage <= 1:
        raise InputError(f"--leakage {leakage}: is a balanced accuracy, so it must lie in (0, 1]")
    console = console_for(json)
    plan = checked(read_study(study, changes or []))
    folder = out or Path("runs") / plan.study.name
    with keep_workers(), ExitStack() as shows:

        def listener(total: int):  # type: ignore[no-untyped-def]
            shows.close()
            return shows.enter_context(shown_progress(console, total))

        searches = search(
            plan,
            leakage,
            folder,
            method=method,
            attribute=attribute,
            task=task,
            tolerance=tolerance,
            steps=steps,
            workers=workers,
            command=repeat_command("run", [str(study)], changes, out),
            listener=listener,
        )
    table = Table()
    for name in ("method", f"leakage ≤ {leakage:g}", "strength", "validation leakage", "test leakage", "test utility"):
        table.add_column(name)
    for searched in searches:
        if searched.answer is None:
            table.add_row(Text(searched.method.name), "failed", "", "", "", "")
            continue
        status, point = searched.answer
        strength = f"{point.strength:g}" + (" (nearest)" if status == UNREACHABLE else "")
        figures = (str(point.on_validation), str(point.leakage), str(point.utility))
        table.add_row(Text(searched.method.name), status, strength, *figures)
    console.print(table)
    console.print(
        "Strengths were chosen on validation people, without looking at the test figures. A target is reached if the "
        "whole interval of the test leakage lies at or below it.",
        markup=False,
    )
    if json:
        answers = [searched.as_dict() for searched in searches]
        print_json({"study": plan.study.name, "target": leakage, "methods": answers})
    failures = {searched.method.name: searched.why for searched in searches if searched.why}
    for name, why in failures.items():
        typer.echo(f"fedveil: {name}: could not be computed at {' '.join(why.split())}", err=True)
    if failures:
        raise typer.Exit(1)
