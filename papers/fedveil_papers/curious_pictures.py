"""Pictures of curious classifiers: honesty against curiosity, ROC curves (Figure 7), entropies (Figure 8)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedveil_papers.curious_layout import COLOURS, named

Rows = Sequence[Mapping[str, Any]]


def with_extra(rows: Rows, extra: str) -> list[Rows]:
    """Return the rows that keep what a picture needs, table by table."""
    own = [row for row in rows if extra in row]
    return [[row for row in own if row["table"] == name] for name in dict.fromkeys(row["table"] for row in own)]


def trade_off(axis: Any, rows: Rows) -> None:
    """Draw δ_y over δ_s by the maker's G, the paper's figures hollow and tied to ours, a colour per setting."""
    settings = list(dict.fromkeys(row["setting"] for row in rows))
    for place, setting in enumerate(settings):
        colour, told = COLOURS[place % len(COLOURS)], False
        for row in (one for one in rows if one["setting"] == setting):
            x, y = 100 * row["own"]["estimate"], 100 * row["honesty"]["estimate"]
            axis.plot(x, y, "o", color=colour, markersize=5, label=None if told else setting)
            told = True
            if {"honesty", "curiosity"} <= set(row["paper"]):
                there = [_number(row["paper"][name]) for name in ("curiosity", "honesty")]
                axis.plot([x, there[0]], [y, there[1]], color=colour, linewidth=0.5, linestyle=":")
                axis.plot(*there, "o", markerfacecolor="none", color=colour, markersize=6)
    axis.set(
        title=f"{rows[0]['table']}: ours filled, the paper's hollow"
        if any(row["paper"] for row in rows)
        else rows[0]["table"]
    )
    axis.set(xlabel="curiosity δ_s, own G (%)", ylabel="honesty δ_y (%)")
    _at_least(axis)
    axis.legend(frameon=False, fontsize=7)


def roc(axis: Any, rows: Rows) -> None:
    """Draw the ROC curves of y and s, a colour per classifier."""
    for place, row in enumerate(rows):
        for label, line in (("y", "-"), ("s", "--")):
            curve = row["roc"][label]
            name = f"{named(row)}: {label}, area {curve['area']:.2f}"
            axis.plot(
                curve["wrong"], curve["right"], line, color=COLOURS[place % len(COLOURS)], linewidth=1.2, label=name
            )
    axis.plot([0, 1], [0, 1], color="grey", linewidth=0.6)
    axis.set(title=f"{rows[0]['table']}: y {rows[0]['target']}, s {rows[0]['secret']}")
    axis.set(xlabel="false positive rate", ylabel="true positive rate", aspect="equal")
    axis.legend(frameon=False, fontsize=6, loc="lower right")


def entropies(axis: Any, rows: Rows) -> None:
    """Draw how often outputs have an entropy, a line per classifier."""
    import math

    for place, row in enumerate(rows):
        shares = row["histogram"]
        width = math.log2(row["Y"]) / len(shares)
        edges = [width * number for number in range(len(shares) + 1)]
        axis.stairs([one / width for one in shares], edges, color=COLOURS[place % len(COLOURS)], label=named(row))
    axis.set_yscale("log")
    axis.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.set(title=f"{rows[0]['table']}: entropies of outputs", xlabel="H(ŷ), bits", ylabel="density (log)")
    axis.legend(frameon=False, fontsize=7)


def _at_least(axis: Any, points: float = 6.0) -> None:
    """Widen both axes to some percentage points, lest a tenth of one look large."""
    for low, high, widen in ((*axis.get_xlim(), axis.set_xlim), (*axis.get_ylim(), axis.set_ylim)):
        lacking = max(0.0, points - (high - low)) / 2
        widen(low - lacking, high + lacking)


def _number(told: str) -> float:
    """Return the mean of a printed figure such as "83.03 ± .33"."""
    return float(told.partition("±")[0])
