"""`fedveil leak`: what anybody's vectors say about an attribute."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer

from fedveil import __version__
from fedveil.cli.output import JsonOption, console_for, print_json, progress
from fedveil.core.arrays import IntArray
from fedveil.core.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from fedveil.view import View

_LEAST_COMBINED = 30
"""Combinations of values with fewer records than this are left out of --intersections."""

_MOST_TEXT_VALUES = 50
"""Of a given column's text values the most frequent so many are told apart; the others are one."""


def leak(
    vectors: Annotated[
        Path,
        typer.Argument(
            help="One vector per row: .npy, .npz, .csv or .tsv (also .gz), .parquet; or the folder of a Flower capture."
        ),
    ],
    attribute: Annotated[
        list[str], typer.Option(help="FILE:COLUMN with the sensitive attribute, row by row; repeat for several.")
    ],
    given: Annotated[
        str, typer.Option(help="Columns beside the first attribute that the attacker knows: age,zip.")
    ] = "",
    group: Annotated[str, typer.Option(help="Column beside the first attribute: whose vector it is.")] = "",
    intersections: Annotated[
        bool, typer.Option(help="Also judge all attributes jointly (sex × race), combinations of 30 records or more.")
    ] = False,
    columns: Annotated[str, typer.Option(help="Only these columns of VECTORS: a,b,c.")] = "",
    key: Annotated[str, typer.Option(help="Which array of an .npz file.")] = "",
    bins: Annotated[int, typer.Option(help="Quantile classes of a continuous attribute.")] = 3,
    panel: Annotated[str, typer.Option(help="full, quick, or attackers by name: logistic,boosting.")] = "full",
    fail_above: Annotated[
        float | None, typer.Option(help="Exit with 1 if the worst attacker's balanced accuracy exceeds this.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the split, the attackers and the intervals.")] = 0,
    device: Annotated[str, typer.Option(help="Where networks are trained: auto, cpu, cuda, mps.")] = "auto",
    json: JsonOption = False,
) -> None:
    """Measure what an attacker reads about an attribute out of vectors that left devices.

    Trains a panel of attackers on one part of the rows, chooses the strongest by balanced accuracy on a second
    and reports it on a third that none of them has seen. The figures are estimates, not guarantees.
    """
    if fail_above is not None and not 0 <= fail_above <= 1:
        raise InputError(f"--fail-above is a balanced accuracy between 0 and 1, got {fail_above}")
    asked = [_file_and_column(text) for text in attribute]
    _check_device(device)
    if vectors.is_dir():
        tables_only = {"--given": given, "--group": group, "--columns": columns, "--key": key}
        view, attackers = _of_capture(vectors, asked, bins, seed, tables_only, intersections), _for_updates(panel)
    else:
        view = _of_file(vectors, asked, given, group, intersections, columns, key, bins, seed)
        attackers = panel

    from fedveil.attacks.judgement import as_table  # the libraries behind the panel take seconds to load
    from fedveil.attacks.panel import Panel
    from fedveil.attacks.panel import panel as panel_of

    console = console_for(json)
    with progress(console) as show:
        judges: Panel = panel_of(attackers, seed=seed, device=device, progress=show)
        judgements = judges.judge_all(view)
    for judgement in judgements:
        console.print(as_table(judgement))
        for line in judgement.in_words():
            console.print(line, markup=False)
    worst = judgements[0]
    if json:
        answer = worst.as_dict() | {"panel": panel, "version": __version__}
        if len(judgements) > 1:
            answer["attributes"] = [judgement.as_dict() for judgement in judgements]
        print_json(answer)
    if fail_above is not None:
        highest = max(judgements, key=lambda judgement: judgement.worst.balanced_accuracy.estimate)
        read = highest.worst.balanced_accuracy.estimate
        if read > fail_above:
            typer.echo(f"fedveil: {highest.attribute} is read at {read:.3f}, above --fail-above {fail_above}", err=True)
            raise typer.Exit(1)


def _of_file(
    vectors: Path,
    asked: list[tuple[Path, str]],
    given: str,
    group: str,
    intersections: bool,
    columns: str,
    key: str,
    bins: int,
    seed: int,
) -> View:
    """Read vectors and what is known of each row."""
    import pandas as pd

    from fedveil.data.attribute import Attribute, intersect
    from fedveil.data.csv_reading import one_spelling
    from fedveil.data.encoding import encode_columns
    from fedveil.data.tables import column, read_table, read_vectors, same_rows
    from fedveil.view import View

    first = asked[0][0]
    known, whose = _names(given), one_spelling(group) or None
    tables = {file: read_table(file) for file in dict.fromkeys(file for file, _ in asked)}
    attributes = {}
    for file, name in asked:
        if name in attributes:
            raise InputError(f"attribute {name!r} is asked for twice; name each once")
        attributes[name] = Attribute.from_column(name, column(tables[file], name, file), bins)
    for name in [*known, *([whose] if whose else [])]:
        if name in attributes:
            raise InputError(f"{name!r} is the attribute itself: it cannot also be given, nor be the group")
    extra = tables[first]
    side = pd.DataFrame({name: _told_apart(column(extra, name, first)) for name in known}) if known else None
    groups = None if whose is None else _group_ids(column(extra, whose, first))

    # Where labels stand beside the vectors in one file, they are no part of the vectors.
    own = [name for file, name in asked if _same(file, vectors)]
    own += [name for name in [*known, *([whose] if whose else [])] if _same(first, vectors)]
    for name in own:
        if name in _names(columns):
            raise InputError(f"--columns names {name!r}, which is the attribute, the group or given; leave it out")
    matrix, _ = read_vectors(vectors, key=key or None, columns=_names(columns) or None, drop=[] if columns else own)
    same_rows({str(vectors): len(matrix)} | {str(file): len(table) for file, table in tables.items()})
    if intersections:
        if len(attributes) < 2:
            raise InputError("--intersections needs at least two attributes; repeat --attribute")
        joint = intersect(list(attributes.values()), least=_LEAST_COMBINED)
        attributes[joint.name] = joint
    return View.of_vectors(
        matrix,
        attributes,
        groups=groups,
        given=None if side is None else encode_columns(side)[0],
        given_names=tuple(known),
        seed=seed,
    )


def _of_capture(
    folder: Path, asked: list[tuple[Path, str]], bins: int, seed: int, tables_only: dict[str, str], intersections: bool
) -> View:
    """Read what a Flower server received, and what is known of each node: a table with a column "node"."""
    from fedveil.flower.captured import Captured, read_node_values

    for option, used in (tables_only | {"--intersections": "on" if intersections else ""}).items():
        if used:
            raise InputError(f"{option} is about rows of a file, and {folder} is a capture's folder; leave it out")
    return Captured.load(folder).view(
        {name: read_node_values(file, name) for file, name in asked}, bins=bins, seed=seed
    )


def _for_updates(panel: str) -> str:
    """Add the attacker that is made for few senders and many numbers to the panels that are called by one word."""
    from fedveil.attacks.panel import FULL

    return {"full": ",".join([*FULL, "updates"]), "quick": "logistic,updates"}.get(panel, panel)


def _file_and_column(text: str) -> tuple[Path, str]:
    from fedveil.data.csv_reading import one_spelling

    file, colon, name = text.rpartition(":")
    if not colon or not file or not name:
        raise InputError(f"--attribute {text!r}: write FILE:COLUMN, as in people.csv:sex")
    return Path(file), one_spelling(name)


def _check_device(device: str) -> None:
    if device not in ("auto", "cpu"):
        from fedveil.core.models import pick_device

        pick_device(device)


def _told_apart(given: pd.Series) -> pd.Series:
    """Fold a text column's rare values into one: a column of their own each would only blur the attackers."""
    import pandas as pd

    if pd.api.types.is_numeric_dtype(given) or given.nunique() <= _MOST_TEXT_VALUES:
        return given
    frequent = given.value_counts().index[:_MOST_TEXT_VALUES]
    return given.where(given.isin(frequent) | given.isna(), "(other)")


def _names(text: str) -> list[str]:
    from fedveil.data.csv_reading import one_spelling

    return [one_spelling(name.strip()) for name in text.split(",") if name.strip()]


def _same(a: Path, b: Path) -> bool:
    return a.resolve() == b.resolve()


def _group_ids(whose: pd.Series) -> IntArray:
    """Number the groups; a record of nobody known is a group of its own."""
    import pandas as pd

    codes = pd.factorize(whose)[0].astype(np.int64)
    nobody = codes < 0
    codes[nobody] = codes.max(initial=-1) + 1 + np.arange(nobody.sum())
    return codes
