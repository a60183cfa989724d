"""`fedveil audit`: whether a classifier's outputs carry an attribute that its task does not explain."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

from fedveil import __version__
from fedveil.cli.output import DeviceOption, JsonOption, PanelOption, console_for, listed, print_json, progress
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
        str, typer.Option(help="The model's inputs: a table with labels, an array (.npy, .npz), or a data source.")
    ] = "",
    labels: Annotated[
        Path | None, typer.Option(help="For an array: the table with the target and the sensitive columns.")
    ] = None,
    features: Annotated[
        str, typer.Option(help="Input columns of a table, in the model's order (default: all other numeric columns).")
    ] = "",
    output: Annotated[str, typer.Option(help="Which of the model's outputs holds the scores.")] = "",
    key: Annotated[str, typer.Option(help="Which array of an .npz file.")] = "",
    option: Annotated[
        list[str] | None, typer.Option(help="NAME=VALUE, an option of the data source; repeat for several.")
    ] = None,
    raw: Annotated[bool, typer.Option("--raw", help="Scores are raw (logits), not probabilities.")] = False,
    percent: Annotated[bool, typer.Option("--percent", help="Scores are in per cent, 0 to 100.")] = False,
    decimals: Annotated[
        int | None,
        typer.Option("--round", help="Audit what is left if probabilities are rounded to this many decimals: 2."),
    ] = None,
    classes: Annotated[str, typer.Option(help="The target's values in the order of the score columns: no,yes.")] = "",
    group: Annotated[str, typer.Option(help="Column that says whose record it is.")] = "",
    bins: Annotated[int, typer.Option(help="Quantile classes of a continuous sensitive attribute.")] = 3,
    panel: PanelOption = "full",
    fail_above: Annotated[
        float | None,
        typer.Option(
            help="Exit with 1 if the unexplained excess exceeds this: bits about the attribute beyond both labels."
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Write a report page (HTML) to this file.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the splits, the attackers and the intervals.")] = 0,
    device: DeviceOption = "auto",
    json: JsonOption = False,
) -> None:
    """Audit a classifier from its outputs alone: is it honest, and is it curious?

    Measures how often its predictions are right, what attackers read about a sensitive attribute in its scores, how
    much of that the true and the predicted label explain, and what is left. The verdict is "standard", "correlated",
    "curious" or "undecided". All figures are estimates against the attackers tried, not guarantees.
    """
    if fail_above is not None and not fail_above >= 0:
        raise InputError(f"--fail-above is a number of bits, at least 0, got {fail_above}")
    if raw and percent:
        raise InputError("--raw and --percent exclude each other; choose one")
    if decimals is not None and not 1 <= decimals <= 15:
        raise InputError(f"--round is a number of decimals of probabilities, 1 to 15, got {decimals}")
    file = _audited_file(
        outputs,
        listed(scores),
        model,
        {
            "--data": data.strip(),
            "--labels": labels,
            "--features": listed(features),
            "--output": output.strip(),
            "--key": key,
            "--option": option,
        },
    )
    from fedveil.audit.labelled_inputs import Wanted, outputs_of, read_inputs
    from fedveil.audit.page import check_writable, write_page
    from fedveil.audit.percent import warning_if_percent

    if out is not None:
        check_writable(out, file)
    wanted = Wanted(
        target.strip(), tuple(name.strip() for name in sensitive), tuple(listed(features)), group.strip(), bins
    )
    order = listed(classes) or None
    if model is None:
        from fedveil.audit.reading import read_outputs

        answers = read_outputs(
            file,
            listed(scores),
            wanted.target,
            wanted.sensitive,
            raw=raw,
            percent=percent,
            classes=order,
            group=wanted.group or None,
            bins=bins,
        )
        sentences: list[str] = []
    else:
        from fedveil.audit.models import read_model

        scorer = read_model(model, output.strip())
        inputs = read_inputs(data.strip(), wanted, labels=labels, key=key, options=tuple(option or ()), seed=seed)
        answers, sentences = outputs_of(scorer, inputs, raw=raw, percent=percent, classes=order)
    warning = warning_if_percent(answers)
    if warning is not None and decimals is not None:
        raise InputError(f"--round: {warning.removeprefix('Warning: ')}")
    if warning is not None:
        typer.echo(f"fedveil: {warning}", err=True)
    if decimals is not None:
        answers = answers.rounded(decimals)

    from fedveil.audit.auditing import audit_all  # the libraries behind the panel take seconds to load

    console = console_for(json)
    with progress(console) as show:
        audits = audit_all(answers, panel=panel, seed=seed, device=device, progress=show)
    if out is not None:
        try:
            write_page(audits, out, file.name, panel)
        except OSError as fault:
            raise InputError(f"{out}: cannot be written: {fault.strerror or fault}") from fault
    for sentence in sentences:
        console.print(sentence, markup=False, soft_wrap=True)
    for result in audits:
        _show(console, result)
    if out is not None:
        console.print(str(out), markup=False, soft_wrap=True)
    if json:
        answer = audits[0].as_dict() | {"panel": panel, "version": __version__}
        if len(audits) > 1:
            answer["attributes"] = [result.as_dict() for result in audits]
        if sentences:
            answer["model"] = {"file": file.name, "data": data, "in_words": sentences}
        print_json(answer)
    if fail_above is not None:
        _gate(audits, fail_above)


def _audited_file(
    outputs: Path | None, scores: list[str], model: Path | None, for_models: Mapping[str, object]
) -> Path:
    """Return the file to audit, a table or a model; refuse both, neither, and options that do not fit the one given."""
    if model is None:
        for name, value in for_models.items():
            if value:
                raise InputError(f"{name} goes with --model; give a model file, or leave it out")
        if outputs is None:
            raise InputError("audit: give a table of outputs (or --model with --data)")
        if not scores:
            raise InputError("audit: give its score columns, --scores")
        return outputs
    if outputs is not None or scores:
        what = f"{outputs}" if outputs is not None else "--scores"
        raise InputError(f"audit: {what} and --model are two ways to give scores; choose one")
    if not for_models["--data"]:
        raise InputError("audit: --model needs --data, the inputs to score: a table, an array, or a data source")
    return model


def _show(console: Console, result: Audit) -> None:
    from fedveil.attacks.judgement import as_table

    console.print(f"{result.attribute}: {result.verdict.upper()}. {result.meaning}", markup=False, style="bold")
    for sentence in result.evidence:
        console.print(f"  {sentence}", markup=False)
    table = as_table(result.judgement)
    table.title = Text(f"What attackers read about {result.attribute} in the scores")
    console.print(table)


def _gate(audits: list[Audit], most: float) -> None:
    worst = max(audits, key=lambda result: result.beyond.unexplained.estimate)
    bits = worst.beyond.unexplained.estimate
    if bits > most:
        typer.echo(
            f"fedveil: {worst.attribute}: unexplained excess of {bits:.3f} bits, above --fail-above {most:g}", err=True
        )
        raise typer.Exit(1)
