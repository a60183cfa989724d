"""The demo's figures over three seeds, to print beside the one seed that a demo plays.

One seed may flatter a defence, or its rival. The means come with the package (`demo_means.json`). The demo's settings
were set with figures of seed 0 in view, and fixed before these seeds were run. `python studies/demo_means.py` measures
them again and writes the file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from fedveil.studies.rows import Row

MEANS = Path(__file__).with_name("demo_means.json")

Key = tuple[str, float | None]


def means_of(rows: Sequence[Row], date: str) -> dict[str, Any]:
    """Return the means in the form of the file."""
    retrained = [row for row in rows if row.attacker == "retrained"]
    return {
        "seeds": list(retrained[0].seeds),
        "date": date,
        "rows": [
            {
                "method": row.method,
                "strength": row.strength,
                "utility": row.utility.accuracy.as_dict(),
                "leakage": row.leakage.balanced_accuracy.as_dict(),
            }
            for row in retrained
        ],
    }


def beside_means(rows: Sequence[Row]) -> Table:
    """Return one seed's figures beside the means of three."""
    means = json.loads(MEANS.read_text("utf-8"))
    by_key: dict[Key, Mapping[str, Any]] = {(entry["method"], entry["strength"]): entry for entry in means["rows"]}
    seeds = ", ".join(map(str, means["seeds"]))
    table = Table(title=Text("This seed, and the means of three"), title_justify="left")
    for heading in ("method", "utility", "three seeds", "leakage", "three seeds"):
        table.add_column(heading, justify="left" if heading == "method" else "right")
    for row in rows:
        if row.attacker != "retrained":
            continue
        mean = by_key.get((row.method, row.strength), {})
        table.add_row(
            Text(row.method if row.strength is None else f"{row.method} {row.strength:g}"),
            f"{row.utility.accuracy.estimate:.3f}",
            _shown(mean.get("utility")),
            f"{row.leakage.balanced_accuracy.estimate:.3f}",
            _shown(mean.get("leakage")),
        )
    table.caption = (
        f"Means of seeds {seeds} with the same settings, measured on {means['date']} by studies/demo_means.py. One "
        "seed may flatter a defence or its rival."
    )
    table.caption_justify = "left"
    return table


def _shown(figure: Mapping[str, float] | None) -> str:
    return "–" if figure is None else f"{figure['estimate']:.3f} [{figure['low']:.3f}, {figure['high']:.3f}]"
