"""`fedveil reproduce`: a table or figure of a paper, its figures beside ours."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fedveil.cli.output import JsonOption, console_for, print_json
from fedveil.cli.run import (
    FreshOption,
    WorkersOption,
    repeat_command,
    report_failures,
    rows_table,
    run_shown,
    say_results,
)
from fedveil.core.errors import InputError
from fedveil.core.plain import plain

if TYPE_CHECKING:
    from fedveil_papers import Played
    from fedveil_papers.preset import Preset
    from fedveil_papers.shown import Display


def reproduce(
    name: Annotated[str | None, typer.Argument(help="The preset, such as baselines/adult.", show_default=False)] = None,
    scale: Annotated[str, typer.Option("--scale", help="quick (light networks, one seed) or paper.")] = "quick",
    out: Annotated[
        Path | None, typer.Option("--out", help="Where results go; runs/<preset>-<scale> if unsaid.")
    ] = None,
    workers: WorkersOption = None,
    fresh: FreshOption = False,
    list_all: Annotated[bool, typer.Option("--list", help="Name all presets.")] = False,
    json: JsonOption = False,
) -> None:
    """Run a preset, and set the paper's figures beside ours."""
    from fedveil_papers.preset import available, beside_paper, read_preset

    console = console_for(json)
    if list_all:
        table = Table("preset", "what it shows")
        for known, title in available().items():
            table.add_row(Text(known), Text(title))
        console.print(table)
        if json:
            print_json({"presets": [{"name": known, "title": title} for known, title in available().items()]})
        return
    if name is None:
        raise InputError("name a preset; fedveil reproduce --list shows them")
    import json as encoder

    from fedveil.core.files import write_atomically
    from fedveil.studies.check import checked
    from fedveil_papers import Played

    preset = read_preset(name, scale)
    console.print(preset.title, markup=False)
    folder = out or Path("runs") / f"{name}-{scale}"
    if preset.experiment is not None:
        processes = workers or os.cpu_count() or 1
        run_experiment(preset, scale, folder, workers=processes, fresh=fresh, json=json, console=console)
        return
    plans = [checked(study) for study in preset.studies]
    if preset.shows is not None:
        preset.shows.check(plans)
    rows: list[dict[str, Any]] = []
    runs = []
    for plan in plans:
        place = folder if len(plans) == 1 else folder / plan.study.name.rpartition("/")[2]
        command = repeat_command("reproduce", [name, "--scale", scale], None, out)
        ran = run_shown(
            plan, place, workers=workers or os.cpu_count() or 1, fresh=fresh, command=command, console=console
        )
        further = {} if len(plans) == 1 else {"data": plan.study.data.source}
        rows += [{**row, **further} for row in beside_paper([row.as_dict() for row in ran.results.rows], preset.paper)]
        runs.append(ran)
    found = {"study": name, "scale": scale, "complete": all(ran.results.complete for ran in runs), "rows": rows}
    console.print(rows_table([row for ran in runs for row in ran.results.rows]))
    for ran in runs:
        say_results(ran.results, console)
    if preset.shows is not None:
        played = [Played(plan, ran.results) for plan, ran in zip(plans, runs, strict=True)]
        found["shows"] = show(preset, played, folder, console) if found["complete"] else None
        if not found["complete"]:
            console.print("Not shown: cells are missing, and the same command tries them again.", markup=False)
    write_atomically(folder / "reproduced.json", encoder.dumps(plain(found)))
    console.print(f"Results: {folder}", markup=False)
    if json:
        print_json(found)
    for ran in runs:
        report_failures(ran)


def show(preset: Preset, played: list[Played], folder: Path, console: Console) -> dict[str, Any]:
    """Gather what a preset shows, print it, and draw it into the directory where matplotlib is there."""
    assert preset.shows is not None
    found: dict[str, Any] = plain(preset.shows.gather(played, preset.paper))
    return lay_out(preset.shows, found, folder / f"{preset.name.rpartition('/')[2]}.png", console)


def run_experiment(
    preset: Preset, scale: str, folder: Path, *, fresh: bool, json: bool, console: Console, workers: int | None = None
) -> None:
    """Run a preset's experiment, print and draw what it found, and write it down."""
    import json as encoder

    from fedveil.core.files import write_atomically
    from fedveil_papers import Kept

    assert preset.experiment is not None
    preset.experiment.check()
    with console.status("") as status:

        def say(what: str) -> None:
            status.update(Text(what))
            if not console.is_terminal:
                console.print(what, markup=False)

        shown = preset.experiment.run(Kept(folder, fresh=fresh, workers=workers), say, preset.paper)
    folder.mkdir(parents=True, exist_ok=True)
    picture = folder / f"{preset.name.rpartition('/')[2]}.png"
    shows = lay_out(preset.experiment, plain(shown), picture, console)
    found = {"experiment": preset.name, "scale": scale, "complete": True, "shows": shows}
    write_atomically(folder / "reproduced.json", encoder.dumps(found))
    console.print(f"Results: {folder}", markup=False)
    if json:
        print_json(found)


def lay_out(display: Display, found: dict[str, Any], picture: Path, console: Console) -> dict[str, Any]:
    """Print figures, draw them where matplotlib is there, and return them with the picture's name."""
    from fedveil_papers.drawing import WITHOUT, write_png

    for table in display.tables(found):
        console.print(table)
    for line in display.notes(found):
        console.print(line, markup=False)
    drawn = write_png(display, found, picture)
    console.print(f"Picture: {picture}" if drawn else WITHOUT, markup=False)
    return {**found, "picture": picture.name if drawn else None}
