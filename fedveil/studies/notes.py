"""What rows say beside the frontier, in plain sentences: for the terminal's last words and for the report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fedveil.studies.rows import DECENSORING

Rows = Sequence[dict[str, Any]]
Label = Callable[[dict[str, Any]], str]


def notes(rows: Rows, label: Label | None = None) -> dict[str, str]:
    """Return sentences by what they are about; only those that there is something to say for."""
    named = label or setting_of
    said = {"decensoring": decensoring(rows, named)}
    return {about: text for about, text in said.items() if text}


def setting_of(row: dict[str, Any]) -> str:
    """Name a row's setting."""
    return str(row["method"]) if row["strength"] is None else f"{row['method']} at {row['strength']:g}"


def decensoring(rows: Rows, label: Label) -> str:
    """Say whether de-censoring or its control reads more than the panel's strongest, where they read most beyond it."""
    panel = {_key(row): row for row in rows if row["attacker"] == "retrained"}
    tried = [row for row in rows if row["attacker"] in DECENSORING]
    if not tried:
        return ""
    worst = max(tried, key=lambda row: _beyond(row, panel))
    gain = next(row for row in tried if row["attacker"] == "decensoring" and _key(row) == _key(worst))["leakage"][
        "gain"
    ]
    name, before = str(worst["attacker_name"]), panel[_key(worst)]
    told = (
        f"{name[:1].upper()}{name[1:]} reads {worst['attribute']} from {label(worst)} at {_shown(_read(worst))}, "
        f"the panel's strongest attacker ({before['attacker_name']}) at {_shown(_read(before))}"
    )
    control = f"Over a network as large without that step, its control, de-censoring gains {_shown(gain)} there"
    clear = ", so undoing the censoring itself helps" if gain["low"] > 0 else ": no gain is shown"
    if _beyond(worst, panel) <= 0:
        return f"{told}: in no setting does de-censoring read more than the panel. {control}{clear}."
    more = len({(row["method"], row["strength"], row["attribute"]) for row in tried if _beyond(row, panel) > 0}) - 1
    others = f" (likewise in {more} more)" if more else ""
    return (
        f"{told}: WORSE than the leakage on the frontier, which is the panel's; take the larger as what leaks "
        f"there{others}. {control}{clear}."
    )


def _beyond(row: dict[str, Any], panel: dict[tuple[Any, ...], dict[str, Any]]) -> float:
    return _read(row)["estimate"] - _read(panel[_key(row)])["estimate"]


def _read(row: dict[str, Any]) -> dict[str, float]:
    found: dict[str, float] = row["leakage"]["balanced_accuracy"]
    return found


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("method", "strength", "task", "attribute"))


def _shown(figure: dict[str, float]) -> str:
    return f"{figure['estimate']:.2f} [{figure['low']:.2f}, {figure['high']:.2f}]"
