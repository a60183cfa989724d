"""`fedveil data`: which data sets there are, where they are found, and how to get them."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Column, Table

from fedveil.data.catalogue import find_source, sources
from fedveil.data.locate import Found, fetch, find
from fedveil.data.source import Source
from fedveil.errors import InputError

app = typer.Typer(help="Data sets: list them, fetch them, find their files.", no_args_is_help=True)

_HEADS = ("what", "attributes", "targets", "where")

Name = Annotated[str, typer.Argument(help="A data set's name, as `fedveil data list` shows it.")]
Json = Annotated[bool, typer.Option("--json", help="End with one line of JSON on stdout; all else goes to stderr.")]


@app.command("list")
def list_sources(as_json: Json = False) -> None:
    """List the data sets: what they hold and where they are found."""
    rows = [_row(name) for name in sources()]
    table = Table(Column("name", no_wrap=True), *(Column(head, overflow="fold") for head in _HEADS))
    for row in rows:
        table.add_row(
            row["name"],
            row["description"],
            ", ".join(row["attributes"]) or "any column",
            ", ".join(row["targets"]) or "any column",
            row["where"],
        )
    Console(stderr=as_json, markup=False).print(table)
    if as_json:
        typer.echo(json.dumps({"sources": rows}))


@app.command("fetch")
def fetch_source(name: Name, as_json: Json = False) -> None:
    """Download a data set, unless all of it is here already."""
    source = find_source(name)
    found = fetch(source) if source.files else None
    _tell(source, found, as_json)


@app.command("path")
def path_of_source(name: Name, as_json: Json = False) -> None:
    """Print the folder that holds a data set's files."""
    source = find_source(name)
    found = find(source) if source.files else None
    if source.files and found is None:
        raise InputError(f"{name}: is not on this machine; fetch it: fedveil data fetch {name}")
    _tell(source, found, as_json)


def _tell(source: Source, found: Found | None, as_json: bool) -> None:
    console = Console(stderr=True, markup=False, soft_wrap=True)
    if found is None:
        console.print(f"{source.name}: needs no files of its own")
    else:
        console.print(f"{source.name}: {', '.join(found.files)} (found in: {found.where}; licence: {source.licence})")
        if not as_json:
            typer.echo(str(found.folder))
    if as_json:
        files = {} if found is None else {name: str(path) for name, path in found.files.items()}
        where = "needs no files" if found is None else found.where
        folder = None if found is None else str(found.folder)
        typer.echo(json.dumps({"name": source.name, "where": where, "folder": folder, "files": files}))


def _row(name: str) -> dict[str, Any]:
    """Describe one source; one that cannot be loaded is shown with its fault, and the others still are."""
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
    if not source.files:
        return "needs no files"
    try:
        found = find(source)
    except InputError as fault:
        return str(fault)
    if found is None:
        return "downloadable" if all(file.url for file in source.files) else "not here"
    if found.where == "package" and source.packaged is not None:
        part = "" if source.packaged.complete else ", in part; all of it downloadable"
        return f"package {source.packaged.distribution}{part}"
    return found.where
