"""`fedveil demo`: no defence and three defences compared on real data, or on a user's table."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from fedveil.cli.output import FreshOption, JsonOption, WorkersOption, console_for, print_json
from fedveil.cli.run import report_failures, rows_table, run_shown
from fedveil.core.errors import InputError

STUDY = Path(__file__).with_name("demo.yaml")


def demo(
    out: Annotated[Path | None, typer.Option("--out", help="Where results go (default: runs/demo).")] = None,
    data: Annotated[Path | None, typer.Option("--data", help="A table of your own, in place of Adult.")] = None,
    target: Annotated[str | None, typer.Option("--target", help="The table's column to predict.")] = None,
    sensitive: Annotated[str | None, typer.Option("--sensitive", help="The table's column to hide.")] = None,
    workers: WorkersOption = None,
    fresh: FreshOption = False,
    json: JsonOption = False,
) -> None:
    """Show what devices give away and what hiding it costs: no defence and three defences, with a report."""
    from fedveil.cli.demo_means import beside_means
    from fedveil.config.study import read_study
    from fedveil.report import in_words, write_report
    from fedveil.studies.check import checked

    console = console_for(json)
    study = study_of_table(data, target, sensitive) if data or target or sensitive else read_study(STUDY)
    plan = checked(study)
    folder = out or Path("runs") / study.name
    options = {"--data": data, "--target": target, "--sensitive": sensitive, "--out": out}
    words = [word for option, value in options.items() if value is not None for word in (option, str(value))]
    command = shlex.join(["fedveil", "demo", *words])
    ran = run_shown(plan, folder, workers=workers, fresh=fresh, command=command, console=console)
    results = ran.results
    if results.cells:
        page = write_report(results)
        console.print(rows_table(results.rows))
        if not data:
            console.print(beside_means(results.rows))
        for sentence in in_words(results, results.tasks[0], results.attributes[0]):
            console.print(sentence.text, markup=False)
        console.print(f"The report: {page} (open it in a browser)", markup=False)
        if json:
            print_json({"cells": [row.as_dict() for row in results.rows], "report": str(page)})
    report_failures(ran.failed)


def study_of_table(data: Path | None, target: str | None, sensitive: str | None) -> Any:
    """Return the demo's study on a user's table, with one device for every 50 people, at most 100."""
    from fedveil.config.reading import changed, read_yaml
    from fedveil.config.study import make_study

    missing = [
        name for name, value in (("--data", data), ("--target", target), ("--sensitive", sensitive)) if not value
    ]
    if missing or data is None:
        raise InputError(
            f"a table of your own needs --data, --target and --sensitive; {' and '.join(missing)} is missing"
        )
    from fedveil.data.tables import read_table

    people = len(read_table(data))
    values = read_yaml(STUDY)
    for key, value in (
        ("name", "demo-own"),
        ("data", {"source": "table", "target": target, "sensitive": [sensitive], "options": {"path": str(data)}}),
        ("methods.adversarial.game.attribute", sensitive),
        ("federation.devices", max(2, min(100, people // 50))),
        ("federation.fraction", 0.1 if people >= 5000 else 0.5),
        ("drop_columns", "auto"),
    ):
        values = changed(values, key, value)
    return make_study(values, "demo")
