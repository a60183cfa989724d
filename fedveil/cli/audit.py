"""`fedveil audit`: whether a classifier's outputs carry an attribute that its task does not explain."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from fedveil import __version__
from fedveil.cli.output import JsonOption, console_for, print_json, progress
from fedveil.errors import InputError

if TYPE_CHECKING:
    from fedveil.audit.auditing import Audit


def audit(
    outputs: Annotated[
        Path, typer.Argument(help="One row per record, with scores and true labels: .csv, .tsv (also .gz), .parquet.")
    ],
    scores: Annotated[
        str, typer.Option(help="Score columns, one per class: p0,p1,p2. One column: the score of the second class.")
    ],
    target: Annotated[str, typer.Option(help="Column with the true class that the classifier is meant to predict.")],
    sensitive: Annotated[list[str], typer.Option(help="Column with a sensitive attribute; repeat for several.")],
    raw: Annotated[bool, typer.Option("--raw", help="Scores are raw (logits), not probabilities.")] = False,
    classes: Annotated[str, typer.Option(help="The target's values in the order of the score columns: no,yes.")] = "",
    group: Annotated[str, typer.Option(help="Column that says whose record it is.")] = "",
    bins: Annotated[int, typer.Option(help="Quantile classes of a continuous sensitive attribute.")] = 3,
    panel: Annotated[str, typer.Option(help="full, quick, or attackers by name: logistic,boosting.")] = "full",
    fail_above: Annotated[
        float | None,
        typer.Option(
            help="Exit with 1 if the excess, bits about the attribute beyond true and predicted label, exceeds this."
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
    from fedveil.audit.place import check_place
    from fedveil.audit.reading import read_outputs

    if fail_above is not None and not fail_above >= 0:
        raise InputError(f"--fail-above is a number of bits, at least 0, got {fail_above}")
    if out is not None:
        check_place(out, outputs)
    read = read_outputs(
        outputs,
        _names(scores),
        target.strip(),
        [name.strip() for name in sensitive],
        raw=raw,
        classes=_names(classes) or None,
        group=group.strip() or None,
        bins=bins,
    )

    from fedveil.audit.auditing import audit_all  # the libraries behind the panel take seconds to load

    console = console_for(json)
    with progress(console) as show:
        audits = audit_all(read, panel=panel, seed=seed, device=device, progress=show)
    if out is not None:
        from fedveil.audit.page import write_page

        try:
            write_page(audits, out, outputs.name, panel)
        except OSError as fault:
            raise InputError(f"{out}: cannot be written: {fault.strerror or fault}") from fault
    for one in audits:
        _show(console, one)
    if out is not None:
        console.print(str(out), markup=False, soft_wrap=True)
    if json:
        answer = audits[0].as_dict() | {"panel": panel, "version": __version__}
        if len(audits) > 1:
            answer["attributes"] = [one.as_dict() for one in audits]
        print_json(answer)
    if fail_above is not None:
        _gate(audits, fail_above)


def _show(console: Console, one: Audit) -> None:
    from fedveil.attacks.judgement import as_table

    console.print(f"{one.attribute}: {one.verdict.upper()}. {one.meaning}", markup=False, style="bold")
    for sentence in one.evidence:
        console.print(f"  {sentence}", markup=False)
    console.print(as_table(one.judgement))


def _gate(audits: list[Audit], most: float) -> None:
    highest = max(audits, key=lambda one: one.beyond.bits.estimate)
    bits = highest.beyond.bits.estimate
    if bits > most:
        typer.echo(f"fedveil: {highest.attribute}: excess of {bits:.3f} bits, above --fail-above {most:g}", err=True)
        raise typer.Exit(1)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]
