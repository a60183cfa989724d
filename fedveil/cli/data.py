"""`fedveil data`: which data sets exist, where their files are, and how to get them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from fedveil.cli.output import JsonOption, console_for, print_json
from fedveil.core.errors import InputError

if TYPE_CHECKING:
    from fedveil.data.locate import Found
    from fedveil.data.source import Source

app = typer.Typer(help="Data sets: list them, fetch them, find their files.", no_args_is_help=True)

_HEADINGS = ("what", "attributes", "targets", "where")

Name = Annotated[str, typer.Argument(help="A data set's name, as `fedveil data list` shows it.")]


@app.command("list")
def list_sources(json: JsonOption = False) -> None:
    """List the data sets: what they hold, and where their files are."""
    from fedveil.data.catalogue import available

    rows = [_row(name) for name in available()]
    table = Table(Column("name", no_wrap=True), *(Column(head, overflow="fold") for head in _HEADINGS))
    for row in rows:
        cells = (
            row["name"],
            row["description"],
            ", ".join(row["attributes"]) or "any column",
            ", ".join(row["targets"]) or "any column",
            row["where"],
        )
        table.add_row(*map(Text, cells))  # plain text: a third party's description is not markup
    console_for(json).print(table)
    if json:
        print_json({"sources": rows})


@app.command("fetch")
def fetch_source(name: Name, json: JsonOption = False) -> None:
    """Download a data set, unless all of it is already on this machine."""
    from fedveil.data.catalogue import find_source
    from fedveil.data.locate import fetch

    source = find_source(name)
    _show_files(source, fetch(source) if source.files else None, json)


@app.command("path")
def path_of_source(name: Name, json: JsonOption = False) -> None:
    """Print the folder that holds a data set's files."""
    from fedveil.data.catalogue import find_source
    from fedveil.data.locate import find

    source = find_source(name)
    files = find(source) if source.files else None
    if source.files and files is None:
        raise InputError(f"{name}: is not on this machine; fetch it: fedveil data fetch {name}")
    _show_files(source, files, json)


def _show_files(source: Source, files: Found | None, as_json: bool) -> None:
    """Print where a source's files are; None for a source that needs none."""
    console = Console(stderr=True, markup=False, soft_wrap=True)
    if files is None:
        console.print(f"{source.name}: needs no files")
    else:
        console.print(f"{source.name}: {', '.join(files.files)} (found in: {files.where}; licence: {source.licence})")
        if not as_json:
            typer.echo(str(files.folder))
    if as_json:
        paths = {} if files is None else {name: str(path) for name, path in files.files.items()}
        where = "needs no files" if files is None else files.where
        folder = None if files is None else str(files.folder)
        print_json({"name": source.name, "where": where, "folder": folder, "files": paths})


def _row(name: str) -> dict[str, Any]:
    """Describe one source; if it cannot be loaded, "where" shows the error."""
    from fedveil.data.catalogue import find_source

    try:
        source = find_source(name)
    except InputError as fault:
        empty: list[str] = []
        return {"name": name, "description": "", "attributes": empty, "targets": empty, "where": str(fault)}
    return {
        "name": name,
        "description": source.description,
        "attributes": list(source.attributes),
        "targets": list(source.targets),
        "where": _where(source),
        "licence": source.licence,
        "citation": source.citation,
    }


def _where(source: Source) -> str:
    from fedveil.data.locate import find

    if not source.files:
        return "needs no files"
    try:
        files = find(source)
    except InputError as fault:
        return str(fault)
    if files is None:
        return "downloadable" if all(file.url for file in source.files) else "not here"
    if files.where == "package" and source.packaged is not None:
        part = "" if source.packaged.complete else ", in part; all of it downloadable"
        return f"package {source.packaged.distribution}{part}"
    return files.where
