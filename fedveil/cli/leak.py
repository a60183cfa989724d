"""`fedveil leak`: what anybody's vectors reveal about an attribute."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedveil import __version__
from fedveil.cli.output import DeviceOption, JsonOption, PanelOption, console_for, listed, print_json, progress
from fedveil.core.errors import InputError

if TYPE_CHECKING:
    from fedveil.attacks.judgement import Judgement
    from fedveil.view import View


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
        str, typer.Option(help="Columns of the first attribute's file that the attacker knows: age,zip.")
    ] = "",
    group: Annotated[str, typer.Option(help="Column of the first attribute's file: whose vector it is.")] = "",
    intersections: Annotated[
        bool, typer.Option(help="Also judge all attributes jointly (sex × race), combinations of 30 records or more.")
    ] = False,
    columns: Annotated[str, typer.Option(help="Only these columns of VECTORS: a,b,c.")] = "",
    key: Annotated[str, typer.Option(help="Which array of an .npz file.")] = "",
    bins: Annotated[int, typer.Option(help="Quantile classes of a continuous attribute.")] = 3,
    panel: PanelOption = "full",
    fail_above: Annotated[
        float | None, typer.Option(help="Exit with 1 if the worst attacker's balanced accuracy exceeds this.")
    ] = None,
    fail_if_possible_above: Annotated[
        float | None,
        typer.Option(help="Exit with 1 if the upper end of that figure's interval exceeds this: too few rows fail."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the split, the attackers and the intervals.")] = 0,
    device: DeviceOption = "auto",
    json: JsonOption = False,
) -> None:
    """Measure what an attacker reads about an attribute in vectors that left devices.

    Trains a panel of attackers on one part of the rows, chooses the strongest by balanced accuracy on a second
    and reports it on a third that none of them has seen. The figures are estimates, not guarantees.
    """
    gates = {"--fail-above": fail_above, "--fail-if-possible-above": fail_if_possible_above}
    for option, most in gates.items():
        if most is not None and not 0 <= most <= 1:
            raise InputError(f"{option} is a balanced accuracy between 0 and 1, got {most}")
    attributes = [_file_and_column(text) for text in attribute]
    if device not in ("auto", "cpu"):
        from fedveil.core.models import pick_device

        pick_device(device)
    if vectors.is_dir():
        for_files = {"--given": given, "--group": group, "--columns": columns, "--key": key}
        for_files["--intersections"] = "on" if intersections else ""
        view, attackers = _view_of_capture(vectors, attributes, bins, seed, for_files), _for_updates(panel)
    else:
        from fedveil.audit.vectors import read_view

        view, attackers = (
            read_view(
                vectors,
                attributes,
                given=listed(given),
                group=group,
                intersections=intersections,
                columns=listed(columns),
                key=key,
                bins=bins,
                seed=seed,
            ),
            panel,
        )

    from fedveil.attacks.judgement import as_table  # the libraries behind the panel take seconds to load
    from fedveil.attacks.panel import panel as panel_of

    console = console_for(json)
    with progress(console) as show:
        judgements = panel_of(attackers, seed=seed, device=device, progress=show).judge_all(view)
    for judgement in judgements:
        console.print(as_table(judgement))
        for line in judgement.in_words():
            console.print(line, markup=False)
    if json:
        answer = judgements[0].as_dict() | {"panel": panel, "version": __version__}
        if len(judgements) > 1:
            answer["attributes"] = [judgement.as_dict() for judgement in judgements]
        print_json(answer)
    _check_gates(judgements, fail_above, fail_if_possible_above)


def _check_gates(judgements: list[Judgement], fail_above: float | None, fail_if_possible_above: float | None) -> None:
    """Exit with 1 if an attribute is read, or may be read, above a limit."""
    faults = []
    worst = max(judgements, key=lambda judgement: judgement.worst.balanced_accuracy.estimate)
    accuracy = worst.worst.balanced_accuracy.estimate
    if fail_above is not None and accuracy > fail_above:
        faults.append(f"{worst.attribute} is read at {accuracy:.3f}, above --fail-above {fail_above}")
    most = max(judgements, key=lambda judgement: judgement.worst.balanced_accuracy.high)
    possible = most.worst.balanced_accuracy
    if fail_if_possible_above is not None and possible.high > fail_if_possible_above:
        faults.append(
            f"{most.attribute} may be read at up to {possible.high:.3f} ({possible}), above --fail-if-possible-above "
            f"{fail_if_possible_above}"
        )
    for fault in faults:
        typer.echo(f"fedveil: {fault}", err=True)
    if faults:
        raise typer.Exit(1)


def _file_and_column(text: str) -> tuple[Path, str]:
    file, colon, name = text.rpartition(":")
    if not colon or not file or not name:
        raise InputError(f"--attribute {text!r}: write FILE:COLUMN, as in people.csv:sex")
    return Path(file), name


def _view_of_capture(
    folder: Path, attributes: list[tuple[Path, str]], bins: int, seed: int, for_files: dict[str, str]
) -> View:
    """Read what a Flower server received, and the attributes of its nodes from tables with a column "node"."""
    for option, value in for_files.items():
        if value:
            raise InputError(f"{option} is about rows of a file, but {folder} is a capture's folder; leave it out")
    from fedveil.data.csv_reading import one_spelling
    from fedveil.flower.captured import Captured, read_node_values

    captured = Captured.load(folder)
    values = {one_spelling(name): read_node_values(file, name) for file, name in attributes}
    return captured.view(values, bins=bins, seed=seed)


def _for_updates(panel: str) -> str:
    """Add the attacker for long updates of few senders to the panels "full" and "quick"."""
    from fedveil.attacks.panel import FULL

    return {"full": ",".join([*FULL, "updates"]), "quick": "logistic,updates"}.get(panel, panel)
