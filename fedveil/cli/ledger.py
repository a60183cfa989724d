"""`fedveil ledger`: what a Flower node has sent, and whether its ledger holds together."""

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
"""Entries of a table; the last ones count."""


def ledger(
    file: Annotated[Path, typer.Argument(help="The ledger of a Flower node, as its policy names it: ledger.jsonl.")],
    delta: Annotated[float, typer.Option(help="The δ at which ε is told.")] = 1e-5,
    json: JsonOption = False,
) -> None:
    """Check a site's ledger and say what has been spent; exit with 1 if its chain does not hold.

    Reads only: nothing is mended, and the node may go on working.
    """
    from fedveil.flower.ledger import Ledger, LedgerError

    if not 0 <= delta < 1:
        raise InputError(f"--delta: lies in [0, 1); got {delta}")
    kept = Ledger(file)
    if not kept.path.exists() and not kept.head.exists():
        raise InputError(f"{file}: no such ledger; a node writes it with its first message")
    try:
        found = kept.read()
    except LedgerError as fault:
        if json:
            print_json({"file": str(file), "holds": False, "fault": str(fault)})
        typer.echo(f"fedveil: {fault}", err=True)
        raise typer.Exit(1) from None
    told = _told(found, delta)
    _say(found, told, file, console_for(json))
    if json:
        print_json({"file": str(file), "holds": True, **told})


def _told(found: Reading, delta: float) -> dict[str, Any]:
    from fedveil.flower.spending import epsilon_of

    epsilon = epsilon_of(found.costs, delta)
    return {
        "entries": len(found.entries),
        "updates": found.count("update"),
        "figures": found.count("figures"),
        "epsilon": epsilon if math.isfinite(epsilon) else None,
        "delta": delta,
        "policies": list(dict.fromkeys(entry.policy for entry in found.entries)),
        "runs": list(dict.fromkeys(entry.run for entry in found.entries)),
        "last": found.last,
    }


def _say(found: Reading, told: dict[str, Any], file: Path, console: Console) -> None:
    table = Table(title=f"{file}: {told['entries']} entries", title_justify="left")
    for name in ("entry", "time", "run", "what left", "policy", "shield", "figures told"):
        table.add_column(name, justify="right" if name == "entry" else "left", overflow="fold")
    for entry in found.entries[-_SHOWN:]:
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
    spent = "∞: some updates had no guarantee" if told["epsilon"] is None else f"{told['epsilon']:.4g}"
    lines = [
        f"Spent: {told['updates']} updates, {told['figures']} replies with figures alone; epsilon {spent} "
        f"at delta {told['delta']:g}, of the updates alone: figures are not counted.",
        f"Written under {len(told['policies'])} policies. The chain holds, up to {told['last'][:16]}…",
    ]
    if found.ahead:
        lines.append("The last entry is not in the head yet: work was cut off there, or goes on. It counts.")
    for line in lines:
        console.print(line, markup=False)
