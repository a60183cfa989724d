"""How pruned classifiers are laid out: tables, notes, Figure 9."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fedveil_papers.curious_case import closing_notes
from fedveil_papers.shown import with_interval

if TYPE_CHECKING:
    from rich.table import Table

COLOURS = {"Std": "#555555", "RawHBC": "#b5471b", "SoftHBC": "#1b6ca8"}
READINGS: Any = (
    ("honesty", "-", "δ_y"),
    ("curiosity", "--", "δ_s, the maker's G"),
    ("retrained_accuracy", ":", "δ_s, retrained"),
)


def tables(found: dict[str, Any]) -> list[Table]:
    """A table for each case: every classifier at the amounts listed."""
    from rich.table import Table

    made = []
    for case in dict.fromkeys(curve["case"] for curve in found["curves"]):
        table = Table(title=f"Figure 9, {case}: weights set to zero, the smallest of each {found['settings']['scope']}")
        for heading in (
            *("classifier", "(β_x, β_y, β_s)", "pruned", "δ_y", "δ_s, the maker's G", "prior", "δ_s, retrained"),
            *("retrained, balanced", "attacker", "entropy"),
        ):
            table.add_column(heading, justify="left" if heading in ("classifier", "attacker") else "right")
        for curve in found["curves"]:
            for row in curve["rows"]:
                if curve["case"] == case and row["amount"] in found["settings"]["listed"]:
                    table.add_row(
                        curve["release"],
                        "" if curve["release"] == "Std" else betas_of(curve["betas"]),
                        f"{row['amount']:.0%}",
                        with_interval(row["honesty"]),
                        with_interval(row["curiosity"]),
                        f"{row['prior']['estimate']:.3f}",
                        with_interval(row["retrained_accuracy"]),
                        with_interval(row["retrained"]),
                        row["attacker"],
                        f"{row['entropy']:.2f}",
                    )
        made.append(table)
    return [*made, _summary(found)]


def bearable(curve: dict[str, Any], lost: float = 0.02) -> dict[str, Any]:
    """Return the row of the largest amount up to which honesty never loses more than some points."""
    first = curve["rows"][0]["honesty"]["estimate"]
    last: dict[str, Any] = curve["rows"][0]
    for row in curve["rows"]:
        if row["honesty"]["estimate"] < first - lost:
            break
        last = row
    return last


def _summary(found: dict[str, Any]) -> Table:
    from rich.table import Table

    table = Table(title="What a user can prune away: the largest amount that costs honesty at most 2 points")
    for heading in ("case", "classifier", "(β_x, β_y, β_s)", "amount", "δ_y", "δ_s, the maker's G", "δ_s, retrained"):
        table.add_column(heading, justify="left" if heading in ("case", "classifier") else "right")
    for curve in found["curves"]:
        first, last = curve["rows"][0], bearable(curve)
        changes = (
            f"{first[name]['estimate']:.3f} → {last[name]['estimate']:.3f}"
            for name in ("honesty", "curiosity", "retrained_accuracy")
        )
        betas = "" if curve["release"] == "Std" else betas_of(curve["betas"])
        table.add_row(curve["case"], curve["release"], betas, f"{last['amount']:.0%}", *changes)
    table.caption = "Chosen by test figures, as a user without labels could not: an upper end of what pruning may do."
    return table


def notes(found: dict[str, Any]) -> list[str]:
    """Say what the figures rest on."""
    told = found["settings"]
    given = f"at most {told['most']} records of each split" if told["most"] else "all records"
    lines = [
        f"{told['runs']} run(s). Weights of convolutions and linear layers are pruned, biases and batch norms are not; "
        "nothing is trained afterwards. G is the one made with the whole classifier.",
        f"Retrained: attackers who learn the pruned outputs anew, the strongest on validation, an estimate; they are "
        f"given {given}. Intervals 95%, theirs by {told['draws']} bootstrap draws"
        + (", at 97.5% since two choices of attackers are looked at." if told["fresh"] else "."),
    ]
    return lines + closing_notes(found)


def draw(found: dict[str, Any], canvas: Any) -> None:
    """Draw honesty and both readings of s over the amount, a panel per case and β."""
    from matplotlib.lines import Line2D

    cases = list(dict.fromkeys(curve["case"] for curve in found["curves"]))
    settings = list(dict.fromkeys(tuple(c["betas"]) for c in found["curves"] if c["release"] != "Std"))
    canvas.set_size_inches(3.1 * len(settings), 2.7 * len(cases) + 0.6)
    axes = canvas.subplots(len(cases), len(settings), squeeze=False, sharex=True, sharey="row")
    for line, case in zip(axes, cases, strict=True):
        for axis, betas in zip(line, settings, strict=True):
            for curve in found["curves"]:
                if curve["case"] == case and (curve["release"] == "Std" or tuple(curve["betas"]) == betas):
                    _curve(axis, curve)
            rows = next(curve["rows"] for curve in found["curves"] if curve["case"] == case)
            axis.axhline(rows[0]["prior"]["estimate"], color="grey", linewidth=0.6)
            axis.set_title(f"{case}, β {betas_of(list(betas))}", fontsize=8)
        line[0].set_ylabel("test accuracy")
    for axis in axes[-1]:
        axis.set_xlabel("share of weights at zero")
    shown = [Line2D([], [], color=colour, label=name) for name, colour in COLOURS.items()]
    shown += [Line2D([], [], color="black", linestyle=style, label=name) for _, style, name in READINGS]
    shown.append(Line2D([], [], color="grey", linewidth=0.6, label="prior of s"))
    canvas.legend(handles=shown, loc="outside lower center", ncols=len(shown), frameon=False, fontsize=8)


def _curve(axis: Any, curve: dict[str, Any]) -> None:
    amounts = [row["amount"] for row in curve["rows"]]
    for name, style, _ in READINGS:
        values = [row[name]["estimate"] for row in curve["rows"]]
        axis.plot(amounts, values, style, color=COLOURS[curve["release"]], linewidth=1.2, marker="o", markersize=2)


def betas_of(betas: list[float]) -> str:
    """Return (β_x, β_y, β_s) as tables show them.

    >>> betas_of([0.0, 0.7, 0.3])
    '(0, .7, .3)'
    """
    return "(" + ", ".join(f"{beta:g}".lstrip("0") or "0" for beta in betas) + ")"
