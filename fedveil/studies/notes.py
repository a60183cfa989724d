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
    said = {"decensoring": decensoring(rows, named), "spent": spent(rows, named), "idle": utility_only(rows, named)}
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


def spent(rows: Rows, label: Label) -> str:
    """Say what noise on updates cost, and that it covers updates alone."""
    found = {label(row): row["spent"] for row in rows if row.get("spent")}
    if not found:
        return ""
    told = [f"{name}: {epsilon_in_words(one)}" for name, one in found.items()]
    shown = "; ".join(told[:6]) + (f"; and {len(told) - 6} more" if len(told) > 6 else "")
    return (
        f"Noise on updates has spent, on the device that spoke most often, {shown}. This covers updates, not the "
        "representations or outputs that are released afterwards."
    )


def epsilon_in_words(one: dict[str, Any]) -> str:
    """Return what was spent on updates."""
    if one["epsilon"] is None:
        return "ε = ∞ (nothing is clipped, so nothing is guaranteed)"
    delta = f", δ = {one['delta']:g}" if one["delta"] else ""
    times = f" in {one['releases']} updates" if one["releases"] else ""
    return f"ε = {one['epsilon']:.3g}{delta}{times}"


def utility_only(rows: Rows, label: Label) -> str:
    """Say how many devices lack what the game hides, or hold one value of it: they trained for utility alone."""
    found: dict[tuple[str, int, int], dict[str, None]] = {}
    for row in rows:
        for name, one in (row.get("utility_only") or {}).items():
            if one["devices"]:
                found.setdefault((name, one["devices"], one["of"]), {})[label(row)] = None
    told = []
    for (name, devices, of), settings in found.items():
        listed = list(settings)
        where = ", ".join(listed[:4]) + (f" and {len(listed) - 4} more" if len(listed) > 4 else "")
        told.append(
            f"{devices} of {of} devices lack {name} or hold one value of it and train for utility only ({where})"
        )
    return "; ".join(told) + "." if told else ""


def _beyond(row: dict[str, Any], panel: dict[tuple[Any, ...], dict[str, Any]]) -> float:
    return _read(row)["estimate"] - _read(panel[_key(row)])["estimate"]


def _read(row: dict[str, Any]) -> dict[str, float]:
    found: dict[str, float] = row["leakage"]["balanced_accuracy"]
    return found


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("method", "strength", "task", "attribute"))


def _shown(figure: dict[str, float]) -> str:
    return f"{figure['estimate']:.2f} [{figure['low']:.2f}, {figure['high']:.2f}]"
