"""How an Attri-Fed study is laid out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from fedveil_papers.shown import with_interval

if TYPE_CHECKING:
    from rich.table import Table


def tables(found: Mapping[str, Any]) -> list[Table]:
    """Return one table: a row per method, participants and whatever varies."""
    from rich.table import Table

    facts = found["facts"]
    told = [f"{name} {value:.3f}" for name, value in facts.items() if value is not None]
    table = Table(
        title=f"{found['task']}, and what tells {found['attribute']}" + (f" ({', '.join(told)})" if told else "")
    )
    headings = ["method", "participants", *found["varied"], found["task"], "sender unknown", "sender known", "attacker"]
    headings += [
        "weak: small network",
        "weak: privatiser",
        "bits",
        "bytes",
        "of float32",
        "certified ≤, unknown",
        "known",
    ]
    for heading in headings:
        table.add_column(heading, justify="left" if heading in ("method", "attacker") else "right")
    for row in found["rows"]:
        certified = [
            f"{row['certificates'][observer]['bound']:.2f}" if observer in row["certificates"] else "–"
            for observer in ("sender unknown", "sender known")
        ]
        table.add_row(
            row["method"],
            str(row["participants"]),
            *(str(row[name]) for name in found["varied"]),
            with_interval(row["accuracy"]),
            with_interval(row["stranger"]["accuracy"]),
            with_interval(row["server"]["accuracy"]),
            row["server"]["attacker"],
            *(weak_reading(row, name) for name in ("network", "privatiser")),
            f"{row['sent']['bits']:.1f}",
            f"{row['sent']['bytes']:.2f}",
            f"{100 * row['bytes_ratio']:.1f}%",
            *certified,
        )
    table.caption = (
        "Accuracies on test people with 95% intervals; attackers retrained; bits and payload bytes per record."
    )
    return [table]


def weak_reading(row: Mapping[str, Any], name: str) -> str:
    """Return what a weak attacker reads; a dash where there is none."""
    weak = row["weak"][name]
    return "–" if weak is None else with_interval(weak["accuracy"])


def notes(found: Mapping[str, Any]) -> list[str]:
    """Say what the figures rest on."""
    lines = [
        "Certified: bits that what is sent can tell about the attribute, against every attacker (95%); the ideal is "
        "I(task; attribute). Estimates of attackers stand beside it, never in its place.",
        "Weak: one small network on pooled representations, as the paper's server reads, and the privatiser that the "
        "encoder was trained to fool: shown to be compared, never as evidence of privacy.",
        "Corollary 1 of the paper (ε = ln 1/T) holds for every mechanism, unprotected ones included: it guarantees "
        "nothing.",
    ]
    spent = {
        row["method"]: ", ".join(f"{name} {value:.2f}" for name, value in row["spent"].items())
        for row in found["rows"]
        if "spent" in row
    }
    lines += [f"{name}: ε spent by each participant, by accountant: {told}." for name, told in spent.items()]
    return lines + [str(one["note"]) for one in found["paper"] if "note" in one]


def draw(found: Mapping[str, Any], canvas: Any) -> None:
    """Draw attackers' accuracy, the task's and the bytes, over participants or over the first thing that varies."""
    along = found["varied"][0] if found["varied"] else "participants"
    canvas.set_size_inches(11, 3.4)
    panels = canvas.subplots(1, 3)
    pictures: tuple[tuple[str, Callable[[Any], float]], ...] = (
        (f"{found['attribute']}, read by the server", lambda row: row["server"]["accuracy"]["estimate"]),
        (f"{found['task']}, accuracy", lambda row: row["accuracy"]["estimate"]),
        ("bytes, share of float32", lambda row: row["bytes_ratio"]),
    )
    for axis, (title, value) in zip(panels, pictures, strict=True):
        by_method: dict[str, list[tuple[Any, float]]] = {}
        for row in found["rows"]:
            by_method.setdefault(row["method"], []).append((row[along], value(row)))
        for name, points in by_method.items():
            axis.plot(*zip(*points, strict=True), marker="o", markersize=3, linewidth=1, label=name)
        axis.set_title(title)
        axis.set_xlabel(along)
    for name in ("prior", "floor"):
        if found["facts"].get(name) is not None:
            panels[0].axhline(found["facts"][name], color="grey", linewidth=0.6, linestyle=":")
    panels[2].set_yscale("log")
    panels[1].legend(frameon=False, fontsize=7)
