"""`fedveil audit`: whether a classifier's outputs carry an attribute that its task does not explain."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

from fedveil import __version__
from fedveil.cli.output import JsonOption, console_for, print_json, progress
from fedveil.core.errors import InputError

if TYPE_CHECKING:
    from fedveil.audit.auditing import Audit


def audit(
    target: Annotated[str, typer.Option(help="Column with the true class that the classifier is meant to predict.")],
    sensitive: Annotated[list[str], typer.Option(help="Column with a sensitive attribute; repeat for several.")],
    outputs: Annotated[
        Path | None,
        typer.Argument(help="One row per record, with scores and true labels: .csv, .tsv (also .gz), .parquet."),
    ] = None,
    scores: Annotated[
        str, typer.Option(help="Score columns, one per class: p0,p1,p2. One column: the score of the second class.")
    ] = "",
    model: Annotated[
        Path | None, typer.Option(help="In place of OUTPUTS: a model file to score --data with, .onnx or .pt2.")
    ] = None,
    data: Annotated[
        str, typer.Option(help="Its inputs: a table with labels, an array (.npy, .npz), or a data source: adult.")
    ] = "",
    labels: Annotated[Path | None, typer.Option(help="Beside an array: the table with target and sensitive.")] = None,
    features: Annotated[
        str, typer.Option(help="Input columns of a table, in the model's order; all other numeric ones if unsaid.")
    ] = "",
    output: Annotated[str, typer.Option(help="Which of the model's outputs holds the scores.")] = "",
    key: Annotated[str, typer.Option(help="Which array of an .npz file.")] = "",
    option: Annotated[
        list[str] | None, typer.Option(help="NAME=VALUE, an option of the data source; repeat for several.")
    ] = None,
    raw: Annotated[bool, typer.Option("--raw", help="Scores are raw (logits), not probabilities.")] = False,
    classes: Annotated[str, typer.Option(help="The target's values in the order of the score columns: no,yes.")] = "",
    group: Annotated[str, typer.Option(help="Column that says whose record it is.")] = "",
    bins: Annotated[int, typer.Option(help="Quantile classes of a continuous sensitive attribute.")] = 3,
    panel: Annotated[str, typer.Option(help="full, quick, or attackers by name: logistic,boosting.")] = "full",
    fail_above: Annotated[
        float | None,
        typer.Option(
            help="Exit with 1 if the unexplained excess exceeds this: bits about the attribute beyond both labels."
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Write a report page (HTML) to this file.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the splits, the attackers and the intervals.")] = 0,
    device: Annotated[str, typer.Option(help="Where attackers' networks are trained: auto, cpu, cuda, mps.")] = "auto",
    json: JsonOption = False,
) -> None:
    """Audit a classifier from its outputs alone: is it honest, and is it curious?

    Measures how right its predictions are, what attackers read about a sensitive attribute out of its scores, how much
    of that the true and the predicted label explain, and what is left. The verdict is "standard", "correlated",
    "curious" or "undecided". All figures are estimates against the attackers tried, not guarantees.
    """
    from fedveil.audit.labelled_inputs import Wanted
    from fedveil.audit.model_outputs import ModelFile, read_given
    from fedveil.audit.place import check_place

    if fail_above is not None and not fail_above >= 0:
        raise InputError(f"--fail-above is a number of bits, at least 0, got {fail_above}")
    wanted = Wanted(
        target.strip(), tuple(name.strip() for name in sensitive), tuple(_names(features)), group.strip(), bins
    )
    scored = ModelFile(model, data.strip(), output.strip(), labels, key, tuple(option or ()), seed)
    place = scored.checked(outputs, _names(scores), wanted)
    if out is not None:
        check_place(out, place)
    read, told = read_given(place, _names(scores), scored, wanted, raw=raw, classes=_names(classes) or None)

    from fedveil.audit.auditing import audit_all  # the libraries behind the panel take seconds to load

    console = console_for(json)
    with progress(console) as show:
        audits = audit_all(read, panel=panel, seed=seed, device=device, progress=show)
    if out is not None:
        from fedveil.audit.page import write_page

        try:
            write_page(audits, out, place.name, panel)
        except OSError as fault:
            raise InputError(f"{out}: cannot be written: {fault.strerror or fault}") from fault
    for sentence in told:
        console.print(sentence, markup=False, soft_wrap=True)
    for one in audits:
        _show(console, one)
    if out is not None:
        console.print(str(out), markup=False, soft_wrap=True)
    if json:
        answer = audits[0].as_dict() | {"panel": panel, "version": __version__}
        if len(audits) > 1:
            answer["attributes"] = [one.as_dict() for one in audits]
        if told:
            answer["model"] = {"file": place.name, "data": data, "in_words": told}
        print_json(answer)
    if fail_above is not None:
        _gate(audits, fail_above)


def _show(console: Console, one: Audit) -> None:
    from fedveil.attacks.judgement import as_table

    console.print(f"{one.attribute}: {one.verdict.upper()}. {one.meaning}", markup=False, style="bold")
    for sentence in one.evidence:
        console.print(f"  {sentence}", markup=False)
    table = as_table(one.judgement)
    table.title = Text(f"What attackers read about {one.attribute} in the scores")
    console.print(table)


def _gate(audits: list[Audit], most: float) -> None:
    highest = max(audits, key=lambda one: one.beyond.unexplained.estimate)
    bits = highest.beyond.unexplained.estimate
    if bits > most:
        typer.echo(
            f"fedveil: {highest.attribute}: unexplained excess of {bits:.3f} bits, above --fail-above {most:g}",
            err=True,
        )
        raise typer.Exit(1)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]
