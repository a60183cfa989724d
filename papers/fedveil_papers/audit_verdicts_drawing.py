"""The picture of verdicts on a zoo of classifiers."""

from __future__ import annotations

from typing import Any

from fedveil_papers.audit_verdicts_layout import LABELS, by_excess

COLOURS = {"standard": "#1b6ca8", "curious": "#b5471b", "failed attempt": "#888888"}
LINES = (
    ("curious", "curious", "curious: caught", "-"),
    ("curious", "undecided", "curious: undecided", ":"),
    ("standard", "curious", "standard: called curious", "-"),
    ("standard", "undecided", "standard: undecided", ":"),
)
"""What is drawn over rows: made to be, verdict, name, style."""


def draw(found: dict[str, Any], canvas: Any) -> None:
    """Draw every classifier's excess against the limit, verdicts over rows, and excess over β_x."""
    members = sorted(found["members"], key=by_excess)
    canvas.set_size_inches(12, 4.2)
    strip, curve, compressed = canvas.subplots(1, 3, width_ratios=(2, 1, 1))
    for place, one in enumerate(members):
        share = one["audits"][0]["share"]
        strip.plot([place, place], [share["low"], share["high"]], color=COLOURS[one["label"]], linewidth=1)
        strip.plot(place, share["estimate"], "o", color=COLOURS[one["label"]], markersize=3)
        strip.plot(place, one["audits"][0]["limit"], "_", color="black", markersize=5)
    for label in LABELS:
        strip.plot([], [], "o", color=COLOURS[label], label=label)
    strip.plot([], [], "_", color="black", label="limit")
    strip.set(title=f"Excess at {found['rows']:,} rows", ylabel="share of H(s | y, ŷ)", xlabel="classifier", xticks=[])
    strip.legend(frameon=False)
    _draw_rows(found, curve)
    for output, mark in (("raw", "o"), ("soft", "s")):
        own = [one for one in members if one["curious"] and one["recipe"].startswith(output)]
        points = [(one["beta_x"], one["audits"][0]["share"]["estimate"], COLOURS[one["label"]]) for one in own]
        if points:
            xs, ys, colours = zip(*points, strict=True)
            compressed.scatter(xs, ys, c=colours, marker=mark, s=16, label=output)
    compressed.axhline(found["limits"]["excess_share"], color="black", linewidth=0.8, linestyle="--")
    compressed.set(title="Curious, by β_x", xlabel="β_x", ylabel="share of H(s | y, ŷ)")
    if compressed.collections:
        compressed.legend(frameon=False)


def _draw_rows(found: dict[str, Any], axis: Any) -> None:
    for label, verdict, name, style in LINES:
        own = [row for row in found["by_rows"] if row["label"] == label and row["members"]]
        if own:
            shares = [row[verdict] / row["members"] for row in own]
            axis.plot([row["rows"] for row in own], shares, style, marker="o", color=COLOURS[label], label=name)
    axis.set(title="Verdicts by rows", xlabel="rows", ylabel="share of classifiers", ylim=(-0.03, 1.03))
    if axis.lines:
        sizes = sorted({row["rows"] for row in found["by_rows"]})
        axis.set_xscale("log")
        axis.set_xticks(sizes, [f"{size / 1000:g}k" for size in sizes])
        axis.set_xticks([], minor=True)
        axis.legend(frameon=False)
