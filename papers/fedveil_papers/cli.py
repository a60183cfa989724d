"""`fedveil reproduce`: a table or figure of a paper, with the paper's figures beside ours."""

from __future__ import annotations

import json as encoder
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fedveil.cli.output import FreshOption, JsonOption, WorkersOption, console_for, print_json
from fedveil.cli.run import (
    repeat_command,
    report_failures,
    rows_table,
    run_shown,
    say_results,
)
from fedveil.core.errors import InputError, InterruptedWork
from fedveil.core.files import plain, write_atomically

if TYPE_CHECKING:
    from fedveil_papers.experiment import Measured
    from fedveil_papers.preset import Preset
    from fedveil_papers.shown import Display, Results


def reproduce(
    name: Annotated[str | None, typer.Argument(help="The preset, such as baselines/adult.", show_default=False)] = None,
    scale: Annotated[str, typer.Option("--scale", help="quick (light networks, one seed) or paper.")] = "quick",
    out: Annotated[
        Path | None, typer.Option("--out", help="Where results go (default: runs/<preset>-<scale>).")
    ] = None,
    workers: WorkersOption = None,
    fresh: FreshOption = False,
    list_all: Annotated[bool, typer.Option("--list", help="Name all presets.")] = False,
    json: JsonOption = False,
) -> None:
    """Run a preset, and show the paper's figures beside ours."""
    from fedveil.studies.runner import keep_workers
    from fedveil_papers.preset import available, read_preset

    console = console_for(json)
    if list_all:
        presets = available()
        table = Table("preset", "what it shows")
        for preset_name, title in presets.items():
            table.add_row(Text(preset_name), Text(title))
        console.print(table)
        if json:
            print_json({"presets": [{"name": preset_name, "title": title} for preset_name, title in presets.items()]})
        return
    if name is None:
        raise InputError("name a preset; fedveil reproduce --list shows them")
    preset = read_preset(name, scale)
    console.print(preset.title, markup=False)
    folder = out or Path("runs") / f"{name}-{scale}"
    command = repeat_command("reproduce", [name, "--scale", scale], None, out)
    with keep_workers():
        reproduced = reproduce_preset(
            preset, scale, folder, workers=workers, fresh=fresh, command=command, console=console
        )
    if json:
        print_json(reproduced.values)
    report_failures(reproduced.failed, "parts" if preset.experiment is not None else "cells")


@dataclass(frozen=True)
class Reproduced:
    """A preset's results: the object in reproduced.json and `--json`, and what could not be computed."""

    values: dict[str, Any]
    failed: dict[str, str]


def reproduce_preset(
    preset: Preset,
    scale: str,
    folder: Path,
    *,
    console: Console,
    workers: int | None = None,
    fresh: bool = False,
    command: str = "",
) -> Reproduced:
    """Run a preset, print and draw its results, and write them to reproduced.json.

    The results of every preset are one object: `preset`, `scale`, `complete`, `rows` (see `rows.Row`), and `shows`,
    which is what the experiment, or the table or figure made of studies, shows beyond the rows.
    """
    run = _run_studies if preset.experiment is None else _run_experiment
    rows, shows, failed = run(preset, folder, console, workers=workers, fresh=fresh, command=command)
    values = {"preset": preset.name, "scale": scale, "complete": not failed, "rows": rows, "shows": shows}
    if failed:
        console.print("The results are incomplete: something failed; the same command tries it again.", markup=False)
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / "reproduced.json", encoder.dumps(plain(values)))
    console.print(f"Results: {folder}", markup=False)
    return Reproduced(plain(values), failed)


_Ran = tuple[list[dict[str, Any]], dict[str, Any] | None, dict[str, str]]
"""Rows, what is shown beyond them, and what failed."""


def _run_studies(
    preset: Preset, folder: Path, console: Console, *, workers: int | None, fresh: bool, command: str
) -> _Ran:
    from fedveil.cli.progress import shown_progress
    from fedveil.studies.check import checked
    from fedveil.studies.results_folder import refuse_marked
    from fedveil_papers.experiment import measure_without_keeping
    from fedveil_papers.rows import beside_paper, study_row
    from fedveil_papers.shown import Played

    plans = [checked(study) for study in preset.studies]
    if preset.shows is not None:
        preset.shows.check(plans)
    rows, played, failed = [], [], dict[str, str]()
    several = len(plans) > 1
    if several:
        refuse_marked(folder)
    for plan in plans:
        study_folder = folder / plan.study.name.rpartition("/")[2] if several else folder
        ran = run_shown(plan, study_folder, workers=workers, fresh=fresh, command=command, console=console)
        more = {"data": plan.study.data.source} if several else {}
        rows += [study_row(row, **more) for row in ran.results.rows]
        played.append(Played(plan, ran.results))
        failed |= ran.failed
    console.print(rows_table([row for study in played for row in study.results.rows]))
    for study in played:
        say_results(study.results, console)
    rows, shows = beside_paper(rows, preset.paper), None
    if preset.shows is not None and not failed:
        parts = preset.shows.parts(played)
        with shown_progress(console, len(parts), "parts") as listener:
            measured = measure_without_keeping(parts, folder, workers=workers, listener=listener)
        failed |= measured.failed
    if preset.shows is not None and not failed:
        results = preset.shows.gather(played, measured, preset.paper)
        shows = lay_out(preset.shows, results, folder, preset.name, console)
        rows += preset.shows.rows(results)
    return [row.as_dict() for row in rows], shows, failed


def _run_experiment(
    preset: Preset, folder: Path, console: Console, *, workers: int | None, fresh: bool, command: str
) -> _Ran:
    assert preset.experiment is not None
    experiment = preset.experiment
    experiment.check()
    measured = _measured(preset, folder, console, workers, fresh)
    if measured.failed:
        return [], None, measured.failed
    results = experiment.gather(measured, preset.paper)
    rows = [row.as_dict() for row in experiment.rows(results)]
    return rows, lay_out(experiment, results, folder, preset.name, console), {}


def _measured(preset: Preset, folder: Path, console: Console, workers: int | None, fresh: bool) -> Measured:
    """Measure an experiment's parts, with the progress on the console."""
    from fedveil.cli.progress import shown_progress
    from fedveil_papers.experiment import ExperimentStore, measure

    assert preset.experiment is not None
    parts, store = preset.experiment.parts(), ExperimentStore(folder, preset.experiment.kind)
    total = len({part.key for part in parts})
    lacking = len(store.missing(parts, fresh=fresh))
    if lacking:
        preset.experiment.locate_data()
    finished = f", {total - lacking} measured already" if lacking < total else ""
    console.print(f"{preset.name}: {total} parts{finished}, results in {folder}", markup=False)
    try:
        with shown_progress(console, lacking, "parts") as listener:
            return measure(parts, store, workers=workers, fresh=fresh, listener=listener)
    except KeyboardInterrupt:
        done = total - len(store.missing(parts))
        raise InterruptedWork(
            f"interrupted; {done} of {total} parts are measured, and the same command continues"
        ) from None


def lay_out(
    display: Display[Results], results: Results, folder: Path, preset_name: str, console: Console
) -> dict[str, Any]:
    """Print results, draw them if matplotlib is installed, and return them as JSON with the picture's name."""
    from fedveil_papers.drawing import WITHOUT, write_png

    for table in display.tables(results):
        console.print(table)
    for line in display.notes(results):
        console.print(line, markup=False)
    folder.mkdir(parents=True, exist_ok=True)
    for name, page in display.pages(results).items():
        write_atomically(folder / name, page)
    picture = folder / f"{preset_name.rpartition('/')[2]}.png"
    drawn = write_png(display, results, picture)
    console.print(f"Picture: {picture}" if drawn else WITHOUT, markup=False)
    return {**display.shows(results), "picture": picture.name if drawn else None}
