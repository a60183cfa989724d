"""`fedveil run`: a study from its YAML to a frontier."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fedveil.cli.output import (
    FreshOption,
    JsonOption,
    OutOption,
    SetOption,
    WorkersOption,
    console_for,
    print_json,
)
from fedveil.core.errors import InterruptedWork

if TYPE_CHECKING:
    from fedveil.studies.check import Plan
    from fedveil.studies.results import StudyResults
    from fedveil.studies.rows import Row
    from fedveil.studies.running import Ran


def run(
    study: Annotated[Path, typer.Argument(help="The study's YAML file.", show_default=False)],
    out: OutOption = None,
    workers: WorkersOption = None,
    changes: SetOption = None,
    fresh: FreshOption = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show cells, estimated time and disk; write nothing.")
    ] = False,
    sink: Annotated[
        list[str] | None,
        typer.Option("--sink", help="Also log to tensorboard or mlflow, in the directory; repeatable."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Run a study: every method, strength and seed, judged by retrained attackers. The same command continues it."""
    from fedveil.config.study import read_study
    from fedveil.studies.check import checked

    console = console_for(json)
    plan = checked(read_study(study, changes or []))
    folder = out or Path("runs") / plan.study.name
    if dry_run:
        from fedveil.cli.dry_run import show_dry_run

        show_dry_run(plan, folder, workers, console, json)
        return
    if sink:
        from fedveil.studies.sinks import check_sinks

        check_sinks(sink)
    sinks = [word for name in sink or [] for word in ("--sink", name)]
    command = repeat_command("run", [str(study), *sinks], changes, out)
    ran = run_shown(plan, folder, workers=workers, fresh=fresh, command=command, console=console)
    show_results(ran.results, console)
    if json:
        print_json(ran.results.as_dict())
    if sink:
        from fedveil.studies.sinks import write_sinks

        write_sinks(sink, ran.results)
    report_failures(ran.failed)


def run_shown(plan: Plan, folder: Path, *, workers: int | None, fresh: bool, command: str, console: Console) -> Ran:
    """Run a checked study, with its progress on the console."""
    from fedveil.cli.progress import shown_progress
    from fedveil.studies.running import run_study
    from fedveil.studies.store import Store

    store = Store(folder)
    done = 0 if fresh else sum(store.result(cell) is not None for cell in plan.cells)
    finished = f", {done} finished already" if done else ""
    console.print(f"{plan.study.name}: {len(plan.cells)} cells{finished}, results in {folder}", markup=False)
    try:
        with shown_progress(console, len(plan.cells) - done) as listener:
            return run_study(plan, folder, workers=workers, fresh=fresh, command=command, listener=listener)
    except KeyboardInterrupt:
        done = sum(store.result(cell) is not None for cell in plan.cells)
        raise InterruptedWork(
            f"interrupted; {done} of {len(plan.cells)} cells are finished, and the same command continues the study"
        ) from None


def show_results(results: StudyResults, console: Console) -> None:
    """Print the rows, and what the frontier says."""
    if not results.cells:
        return
    console.print(rows_table(results.rows))
    say_results(results, console)
    console.print(
        f"Results: {results.folder}; the page: fedveil report {shlex.quote(str(results.folder))}", markup=False
    )


def say_results(results: StudyResults, console: Console) -> None:
    """Print what the frontiers and the rows show, in words."""
    from fedveil.studies.notes import notes

    for task in results.tasks:
        for attribute in results.attributes:
            for line in results.frontier(task, attribute).in_words():
                console.print(line, markup=False)
    for line in notes(results.rows).values():
        console.print(line, markup=False)


def rows_table(rows: Sequence[Row]) -> Table:
    """Return rows as a table for the terminal; a column with one value in all rows becomes part of the title.

    Beside the leakage of these releases stands what another seed's release would leak, if some row has enough seeds for
    a prediction; else the caption says why there is none.
    """
    from fedveil.studies.seeds import LEAST

    predicted = any(row.leakage.new_seed is not None for row in rows)
    constant = [name for name in ("task", "attribute") if len({getattr(row, name) for row in rows}) == 1]
    title = ", ".join(f"{name}: {getattr(rows[0], name)}" for name in constant)
    table = Table(title=Text(title) if title else None, title_justify="left")
    names = [name for name in ("task", "attribute") if name not in constant]
    headings = ["utility (accuracy)", "attacker", "leakage (balanced acc.)", "leakage (accuracy)", "seeds"]
    if predicted:
        headings.insert(3, "another seed")
        table.caption = "Another seed: where the leakage of one more seed's release is predicted to lie, at 95%."
    else:
        table.caption = f"What another seed's release would reveal is not predicted: that takes {LEAST} seeds."
    for name in ("method", "strength", *names, *headings):
        table.add_column(name, justify="right" if name in ("strength", "seeds") else "left", no_wrap=name != "attacker")
    for row in rows:
        weak = row.attacker == "cotrained"
        table.add_row(
            Text(row.method),
            "" if row.strength is None else f"{row.strength:g}",
            *(Text(getattr(row, name)) for name in names),
            str(row.utility.accuracy),
            Text("co-trained (weak)" if weak else row.attacker_name),
            str(row.leakage.balanced_accuracy),
            *([_predicted(row)] if predicted else []),
            str(row.leakage.accuracy),
            str(len(row.seeds)),
            style="dim" if weak else "",
        )
    return table


def _predicted(row: Row) -> str:
    """Return the interval for another seed's release; its middle is the leakage of these releases."""
    figure = row.leakage.new_seed
    return "–" if figure is None else f"[{figure.low:.3f}, {figure.high:.3f}]"


def shown(figure: dict[str, float]) -> str:
    """Return a figure with its interval."""
    return f"{figure['estimate']:.3f} [{figure['low']:.3f}, {figure['high']:.3f}]"


def report_failures(failed: Mapping[str, str], noun: str = "cells") -> None:
    """Print what could not be computed, with the reason; the exit code is then 1."""
    for name, why in failed.items():
        typer.echo(f"fedveil: {name}: failed: {' '.join(why.split())}", err=True)
    if failed:
        typer.echo(f"fedveil: {len(failed)} {noun} failed; the same command tries them again", err=True)
        raise typer.Exit(1)


def repeat_command(verb: str, arguments: list[str], changes: list[str] | None, out: Path | None) -> str:
    """Return what a person types to repeat this."""
    words = ["fedveil", verb, *arguments]
    words += [word for change in changes or [] for word in ("--set", change)]
    words += ["--out", str(out)] if out else []
    return shlex.join(words)
