"""`fedveil tune`: the strength that reaches a target leakage."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from fedveil.cli.output import JsonOption, OutOption, SetOption, WorkersOption, console_for, print_json
from fedveil.cli.run import repeat_command, shown
from fedveil.core.errors import InputError


def tune(
    study: Annotated[Path, typer.Argument(help="The study's YAML file.", show_default=False)],
    leakage: Annotated[float, typer.Option("--leakage", help="The balanced accuracy to stay below, on validation.")],
    method: Annotated[
        str | None, typer.Option("--method", help="One method; all that have strengths if unsaid.")
    ] = None,
    attribute: Annotated[
        str | None, typer.Option("--attribute", help="The attribute, where there are several.")
    ] = None,
    task: Annotated[str | None, typer.Option("--task", help="The task; the first if unsaid.")] = None,
    steps: Annotated[int, typer.Option("--steps", min=0, max=50, help="Bisections at most.")] = 8,
    tolerance: Annotated[float, typer.Option("--tolerance", min=0.0, help="Close enough below the target.")] = 0.005,
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

        found = search(
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
    for one in found:
        if one.answer is None:
            table.add_row(Text(one.method.name), "failed", "", "", "", "")
            continue
        status, point = one.answer
        nearest = f"{point.strength:g}" + (" (nearest)" if status == "unreachable" else "")
        seen = f"{point.validation_leakage:.3f}"
        table.add_row(Text(one.method.name), status, nearest, seen, shown(point.leakage), shown(point.utility))
    console.print(table)
    console.print(
        "Chosen on validation people; the test figures were not looked at before. Where they lie above the target, "
        "that is the cost of having selected.",
        markup=False,
    )
    if json:
        answers = [one.as_dict() for one in found]
        print_json({"study": plan.study.name, "target": leakage, "methods": answers})
    for one in found:
        if one.why:
            typer.echo(f"fedveil: {one.method.name}: could not be computed at {' '.join(one.why.split())}", err=True)
    if any(one.why for one in found):
        raise typer.Exit(1)
