"""`fedveil report`: a study's results on one page."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from fedveil.cli.output import JsonOption, console_for, print_json, progress
from fedveil.core.errors import InputError


def report(
    study: Annotated[Path, typer.Argument(metavar="DIR", help="A directory that `fedveil run` has written.")],
    out: Annotated[Path | None, typer.Option("--out", help="The page's file (default: DIR/report.html).")] = None,
    export: Annotated[
        Path | None, typer.Option("--export", help="Also write figures (PNG) and a table (LaTeX) to this directory.")
    ] = None,
    open_page: Annotated[bool, typer.Option("--open", help="Show the page in a browser.")] = False,
    json: JsonOption = False,
) -> None:
    """Write a study's results as one HTML page that needs no network; the page of a partial study is marked so."""
    from fedveil.report.build import write_report  # its libraries take seconds to load
    from fedveil.report.words import in_words
    from fedveil.studies.results import open_study

    console = console_for(json)
    results = open_study(study)
    written: list[Path] = []
    try:
        with progress(console) as show:
            show("building the page …")
            page = write_report(results, out)
            if export is not None:
                from fedveil.report.export import export as write_figures

                show("drawing figures …")
                written = write_figures(results, export)
    except OSError as fault:
        raise InputError(f"{fault.filename or out or study}: cannot be written: {fault.strerror or fault}") from fault
    words = {
        f"{task}|{attribute}": [sentence.text for sentence in in_words(results, task, attribute)]
        for task in results.tasks
        for attribute in results.attributes
    }
    for text in next(iter(words.values()), ["No cell of this study is finished yet."]):
        console.print(text, markup=False)
    size = page.stat().st_size
    console.print(f"{page} ({size / 1e6:.1f} MB)", markup=False, soft_wrap=True)
    for path in written:
        console.print(str(path), markup=False, soft_wrap=True)
    if json:
        exported = [str(path) for path in written]
        print_json(
            {"page": str(page), "bytes": size, "complete": results.complete, "words": words, "exported": exported}
        )
    if open_page:
        webbrowser.open(page.resolve().as_uri())
