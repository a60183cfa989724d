"""How curves of shields on updates are laid out: rows, the comparison at equal learning, and pictures' curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fedveil_papers.exposure.readers import strongest
from fedveil_papers.shown import with_interval

if TYPE_CHECKING:
    from rich.table import Table

ENOUGH = 0.97
"""The share of the loss's fall at which methods are compared."""

MODES = {"static": "static", "retrained": "retrained", "pooled": "retrained, rounds pooled"}


def matched_utility(panel: Mapping[str, Any], attribute: str) -> Table:
    """Lay out each method where it leaks least among its strengths that keep enough; validation people choose both."""
    from rich.table import Table

    table = Table(title=f"{panel['case']}: {attribute}, at {ENOUGH:.0%} of the loss's fall or more")
    for heading in ("method", "strength", "loss kept", "worst retrained"):
        table.add_column(heading, justify="left" if heading == "method" else "right")
    by_method: dict[str, list[Mapping[str, Any]]] = {}
    for point in panel["points"]:
        by_method.setdefault(point["method"], []).append(point)
    for name, points in by_method.items():
        able = [
            (chosen["validation"], point, chosen)
            for point in points
            if (point.get("validation_kept") or point.get("kept") or 0.0) >= ENOUGH
            and (chosen := worst(point, attribute, "retrained")) is not None
        ]
        if able:
            _, point, chosen = min(able, key=lambda one: float(one[0]))
            strength = "" if point["strength"] is None else f"{point['strength']:g}"
            table.add_row(name, strength, f"{point['kept']:.3f}", with_interval(chosen["balanced_accuracy"]))
        else:
            table.add_row(name, "", "none keeps enough, or not measured", "–")
    return table


def memories(found: dict[str, Any]) -> list[str]:
    """Say what zoos take, each method's once."""
    told: dict[str, None] = {}
    for panel in found["panels"]:
        for point in panel["points"]:
            for name, zoo in (point.get("settings") or {}).get("zoos", {}).items():
                size = f"{zoo['members']} members, {zoo['bytes'] / 1e6:.1f} MB"
                told[f"Zoo of {point['method']} on {panel['case']} for {name}: {size}."] = None
    return list(told)


def rows_of(point: Mapping[str, Any], attribute: str, mode: str) -> list[dict[str, Any]]:
    """Return what attackers of a mode read of an attribute."""
    return [row for row in point.get("rows", []) if row["attribute"] == attribute and row["mode"] == mode]


def worst(point: Mapping[str, Any], attribute: str, mode: str) -> dict[str, Any] | None:
    """Return the attacker that counts: the round and the attacker that validation people choose."""
    own = rows_of(point, attribute, mode)
    return strongest(own) if own else None


def prior_of(panel: Mapping[str, Any], attribute: str) -> float:
    """Return the accuracy of always guessing the most frequent value."""
    own = rows_of(panel["points"][0], attribute, "retrained") or rows_of(panel["points"][0], attribute, "static")
    return float(own[0]["prior"]["estimate"]) if own else float("nan")


def mean_static(point: Mapping[str, Any], attribute: str, attacker: str) -> float | None:
    """Return a static attacker's balanced accuracy, the mean over the rounds looked at."""
    own = [
        row["balanced_accuracy"]["estimate"]
        for row in rows_of(point, attribute, "static")
        if row["attacker"] == attacker
    ]
    return sum(own) / len(own) if own else None


def cells_of_point(point: Mapping[str, Any], attribute: str) -> Sequence[str]:
    """Return a row of the table."""
    strength = "" if point["strength"] is None else f"{point['strength']:g}"
    if point.get("unreachable"):
        return [point["method"], strength, "unreachable", *["–"] * 6]
    norms = [told["relative_l2"] for told in point["damage"].values()]
    chosen, pooled = worst(point, attribute, "retrained"), worst(point, attribute, "pooled")
    static = [mean_static(point, attribute, name) for name in ("stru-nn", "unkwn-nn")]
    return [
        point["method"],
        strength,
        f"{sum(norms) / len(norms):.3f}",
        "–" if point["kept"] is None else f"{point['kept']:.3f}",
        *("–" if one is None else f"{one:.3f}" for one in static),
        "–" if chosen is None else with_interval(chosen["balanced_accuracy"]),
        "" if chosen is None else f"{chosen['attacker']} on {chosen['features']}, round {chosen['round']}",
        "–" if pooled is None else with_interval(pooled["balanced_accuracy"]),
    ]


def draw_curve(axis: Any, panel: Mapping[str, Any], attribute: str, mode: str) -> None:
    """Draw what attackers of a mode read against what learning keeps, a line for each method."""
    by_method: dict[str, list[tuple[float, float]]] = {}
    for point in panel["points"]:
        chosen = worst(point, attribute, mode)
        if chosen is not None and point.get("kept") is not None:
            by_method.setdefault(point["method"], []).append((point["kept"], chosen["balanced_accuracy"]["estimate"]))
    for name, own in by_method.items():
        own.sort()
        axis.plot(*zip(*own, strict=True), marker="o", markersize=3, linewidth=1, label=name)
    axis.set_ylabel(f"{MODES[mode]} attacker, balanced accuracy")
    axis.set_xlim(left=max(-0.1, axis.get_xlim()[0]))
