"""How curious classifiers in the plane are laid out: means over runs, tables, notes, picture."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

from fedveil_papers.shown import with_interval

if TYPE_CHECKING:
    from rich.table import Table

GROUPS = ("y = 0, s = 0", "y = 0, s = 1", "y = 1, s = 0", "y = 1, s = 1")
COLOURS = ("#1b6ca8", "#7cc4e8", "#b5471b", "#f2a65a")


def over_runs(runs: Sequence[Sequence[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Join the same row of several runs: means, standard deviations, and the widest of the runs' intervals."""
    return [{key: _joined([row[key] for row in rows]) for key in rows[0]} for rows in zip(*runs, strict=True)]


def _joined(values: list[Any]) -> Any:
    first = values[0]
    if isinstance(first, dict):
        points = [value["estimate"] for value in values]
        found = {
            "estimate": fmean(points),
            "low": min(v["low"] for v in values),
            "high": max(v["high"] for v in values),
        }
        return found | ({"deviation": stdev(points)} if len(points) > 1 else {})
    if all(value == first for value in values):
        return first
    if isinstance(first, str):
        return ", ".join(dict.fromkeys(values))
    return fmean(values)


def _shown(figure: dict[str, float] | None) -> str:
    """Return a figure as mean ± standard deviation and interval."""
    if figure is not None and "deviation" in figure:
        ends = f"[{figure['low']:.3f}, {figure['high']:.3f}]"
        return f"{figure['estimate']:.3f} ± {figure['deviation']:.3f} {ends}"
    return with_interval(figure)


def _headed(title: str, headings: Sequence[str]) -> Table:
    from rich.table import Table

    table = Table(title=title)
    for place, heading in enumerate(headings):
        table.add_column(heading, justify="left" if place == 0 else "right")
    return table


def tables(found: dict[str, Any]) -> list[Table]:
    """Mixtures, the normal one by margin, one logistic regression, Appendix A.2."""
    told = found["settings"]
    printed = {one["release"]: one for one in found["paper"] if "release" in one}
    betas = f"β = ({told['beta_y']:g}, {1 - told['beta_y']:g})"
    mixtures = _headed(
        f"Figure 4: {betas}, τ' = {told['threshold']:g}, {found['runs']} run(s)",
        ("release", "δ_y", "paper", "δ_s, the server's G", "paper", "prior", "retrained, balanced", "attacker"),
    )
    for row in found["mixtures"]:
        paper = printed.get(row["release"], {})
        beside = [f"{paper[name]:g}" if name in paper else "" for name in ("honesty", "curiosity")]
        mixtures.add_row(
            row["release"],
            _shown(row["honesty"]),
            beside[0],
            _shown(row["curiosity"]),
            beside[1],
            f"{row['prior']['estimate']:.3f}",
            _shown(row["retrained"]),
            row["attacker"],
        )
    margins = _headed("Normal mixture by margin of the data", ("margin", "δ_y", "δ_s, the server's G"))
    for row in found["margins"]:
        margins.add_row(f"{row['margin']:g}", _shown(row["honesty"]), _shown(row["curiosity"]))
    return [mixtures, margins, _convex(found), _near(found)]


def _convex(found: dict[str, Any]) -> Table:
    table = _headed(
        "One logistic regression for both (Appendix A.1): δ_s by how the output is read",
        (
            *("margin", "β_s", "δ_y", "shared ½", "sum", "1 + P(y = s)", "own threshold"),
            *("intervals", "number", "sum", "prior", "retrained, balanced"),
        ),
    )
    for row in found["convex"]:
        honesty = row["honesty"]["estimate"]
        table.add_row(
            f"{row['margin']:g}",
            f"{row['beta_s']:g}",
            f"{honesty:.3f}",
            f"{row['curiosity']['estimate']:.3f}",
            f"{honesty + row['curiosity']['estimate']:.3f}",
            f"{row['ceiling']:.3f}",
            f"{row['own_threshold']['estimate']:.3f}",
            _shown(row["intervals"]),
            f"{row['pieces']:g}",
            f"{honesty + row['intervals']['estimate']:.3f}",
            f"{row['prior']['estimate']:.3f}",
            _shown(row["retrained"]),
        )
    table.caption = "The paper: δ_y + δ_s = 1.5 for any logistic regression; that is the first sum."
    return table


def _near(found: dict[str, Any]) -> Table:
    table = _headed(
        "Appendix A.2: distance of the optimum for both from y's own",
        ("λ", "P(s = y)", "β_s", "‖Θ∞ − Θ*_y‖", "bound by ∇L_s", "bound by L_s, mended", "L_y lost"),
    )
    for row in found["near"]:
        figures = (f"{row[name]:.4f}" for name in ("distance", "gradient_bound", "gap_bound", "lost"))
        table.add_row(f"{row['ridge']:g}", f"{row['agreement']:g}", f"{row['beta_s']:g}", *figures)
    return table


def notes(found: dict[str, Any]) -> list[str]:
    """Say what the figures rest on."""
    told = found["settings"]
    lines = [
        f"Data: y and s even and independent, |x1| and |x2| uniform on [margin, 1]; {told['train']} training records; "
        "the paper prints no distribution. The margin was chosen so that the normal mixture meets the paper's .95.",
        f"Logistic regressions have the penalty C = {told['inverse_penalty']:g}: without one, separable data drives "
        "weights to infinity, and the normal mixture becomes the hard one.",
        "One shared bit b has P(b = y) + P(b = s) ≤ 1 + P(y = s) for any classifier. The output is a number: along it "
        "the groups 00, 01, 10, 11 follow each other, s changes at each border, and several intervals tell them apart.",
        "Intervals: 95%"
        + (", for several runs the widest of theirs behind mean ± standard deviation." if found["runs"] > 1 else ".")
        + " Retrained: the strongest attacker on validation, an estimate; the bounds of A.2 are proven.",
    ]
    return lines + [str(one["note"]) for one in found["paper"] if "note" in one]


def draw(found: dict[str, Any], canvas: Any) -> None:
    """Draw the data, both mixtures, the trade-off and the neighbourhood."""
    canvas.set_size_inches(11.5, 6.4)
    data, hard, normal, trade, near, empty = canvas.subplots(2, 3).flat
    picture, told = found["picture"], found["settings"]
    for group, (name, colour) in enumerate(zip(GROUPS, COLOURS, strict=True)):
        points = [x for x, own in zip(picture["x"], picture["group"], strict=True) if own == group]
        data.scatter(*zip(*points, strict=True), s=7, color=colour, marker="ox"[group % 2], linewidth=0.8, label=name)
    data.set(title="Figure 2: data", xlabel="x1 (decides y)", ylabel="x2 (decides s)", aspect="equal")
    for axis, kind in ((hard, "hard"), (normal, "normal")):
        bins = len(picture["counts"][kind][0])
        for counts, name, colour in zip(picture["counts"][kind], GROUPS, COLOURS, strict=True):
            places = [(place + 0.5) / bins for place in range(bins)]
            axis.bar(places, counts, width=1 / bins, color=colour, alpha=0.8, label=name)
        for cut in (told["threshold"], 0.5, 1 - told["threshold"]):
            axis.axvline(cut, color="black", linewidth=0.7, linestyle=":")
        axis.set_yscale("log")
        axis.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axis.yaxis.set_minor_formatter(lambda value, _: "")
        axis.set(title=f"Figure 4: {kind} mixture", xlabel="ŷ", ylabel="test records (log)")
        axis.set_ylim(0.8, 2 * max(map(max, picture["counts"][kind])))
    for place, margin in enumerate(dict.fromkeys(row["margin"] for row in found["convex"])):
        rows = [row for row in found["convex"] if row["margin"] == margin]
        honesty = [row["honesty"]["estimate"] for row in rows]
        shades = (COLOURS[0], COLOURS[2])[place % 2]
        for reading, line, name in (("curiosity", "o--", "shared threshold"), ("intervals", "s-", "intervals")):
            values = [row[reading]["estimate"] for row in rows]
            trade.plot(values, honesty, line, color=shades, markersize=3.5, label=f"{name}, margin {margin:g}")
    trade.plot([0.5, 0.75], [1.0, 0.75], color="grey", linewidth=4, alpha=0.3, label="δ_y + δ_s = 1.5")
    trade.set(title="One logistic regression, β_s from 0 to .5", xlabel="δ_s", ylabel="δ_y", xlim=(0.45, 1.02))
    ridge = found["near"][0]["ridge"]
    first = [row for row in found["near"] if row["ridge"] == ridge and row["agreement"] == 0.5]
    first = list({row["beta_s"]: row for row in first}.values())
    betas = [row["beta_s"] for row in first]
    for name, label in (
        ("distance", "measured"),
        ("gap_bound", "bound by L_s, mended"),
        ("gradient_bound", "bound by ∇L_s"),
    ):
        near.plot(betas, [row[name] for row in first], "o-", markersize=3, label=label)
    near.set(title=f"Appendix A.2, λ = {ridge:g}", xlabel="β_s", ylabel="‖Θ∞ − Θ*_y‖")
    near.legend(frameon=False, fontsize=8)
    empty.axis("off")  # legends of the others, which would cover their points
    kept = empty.legend(*data.get_legend_handles_labels(), loc="upper left", frameon=False, borderaxespad=0)
    empty.legend(*trade.get_legend_handles_labels(), loc="lower left", frameon=False, borderaxespad=0)
    empty.add_artist(kept)  # a second legend replaces the first, unless that is an artist of its own
