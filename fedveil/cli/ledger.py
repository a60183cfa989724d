"""`fedveil ledger`: what a Flower node has sent, and whether its ledger is intact."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from fedveil.cli.output import JsonOption, console_for, print_json
from fedveil.core.errors import InputError

if TYPE_CHECKING:
    from fedveil.flower.ledger import Reading

_SHOWN = 20
"""How many of the last entries are shown; all are counted."""


def ledger(
    file: Annotated[Path, typer.Argument(help="The ledger of a Flower node, named in its policy: ledger.jsonl.")],
    delta: Annotated[float, typer.Option(help="The δ at which ε is computed.")] = 1e-5,
    json: JsonOption = False,
) -> None:
    """Check a site's ledger and show what has been spent; exit with 1 if its chain does not hold.

    The ledger is only read: nothing is repaired, and the node may go on working.
    """
    from fedveil.flower.ledger import Ledger, LedgerError

    if not 0 <= delta < 1:
        raise InputError(f"--delta: must lie in [0, 1); got {delta}")
    site_ledger = Ledger(file)
    if not site_ledger.path.exists() and not site_ledger.head.exists():
        raise InputError(f"{file}: no such ledger; a node writes it with its first message")
    try:
        reading = site_ledger.read()
    except LedgerError as fault:
        if json:
            print_json({"file": str(file), "holds": False, "fault": str(fault)})
        typer.echo(f"fedveil: {fault}", err=True)
        raise typer.Exit(1) from None
    summary = _summary(reading, delta)
    _show(reading, summary, file, console_for(json))
    if json:
        print_json({"file": str(file), "holds": True, **summary})


def _summary(reading: Reading, delta: float) -> dict[str, Any]:
    from fedveil.flower.spending import epsilon_of

    epsilon = epsilon_of(reading.costs, delta)
    return {
        "entries": len(reading.entries),
        "updates": reading.count("update"),
        "figures": reading.count("figures"),
        "epsilon": epsilon if math.isfinite(epsilon) else None,
        "delta": delta,
        "policies": list(dict.fromkeys(entry.policy for entry in reading.entries)),
        "runs": list(dict.fromkeys(entry.run for entry in reading.entries)),
        "last": reading.last,
    }


def _show(reading: Reading, summary: dict[str, Any], file: Path, console: Console) -> None:
    table = Table(title=f"{file}: {summary['entries']} entries", title_justify="left")
    for name in ("entry", "time", "run", "what left", "policy", "shield", "figures sent"):
        table.add_column(name, justify="right" if name == "entry" else "left", overflow="fold")
    for entry in reading.entries[-_SHOWN:]:
        table.add_row(
            str(entry.number),
            entry.time[:19],
            str(entry.run),
            entry.kind,
            entry.policy[:8],
            entry.shield.partition("(")[0],
            ", ".join(entry.told),
        )
    console.print(table)
    spent = "∞: some updates had no guarantee" if summary["epsilon"] is None else f"{summary['epsilon']:.4g}"
    lines = [
        f"Spent: {summary['updates']} updates, {summary['figures']} replies with only figures; epsilon {spent} "
        f"at delta {summary['delta']:g} for the updates; figures are not counted.",
        f"Written under {len(summary['policies'])} policies. The chain holds, up to {summary['last'][:16]}…",
    ]
    if reading.ahead:
        lines.append("The last entry is not in the head yet: the node was interrupted, or is still writing. It counts.")
    for line in lines:
        console.print(line, markup=False)
