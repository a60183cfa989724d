"""How teachers and students are laid out: tables, what students keep, notes, picture."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from fedveil_papers.curious_case import closing_notes
from fedveil_papers.shown import with_interval

if TYPE_CHECKING:
    from rich.table import Table

LEAST = 0.1
"""From such an excess of the teacher's curiosity on, it is asked what the student keeps of it."""

MARKS = {"teacher": "s", "student": "o"}
READINGS: Any = (
    ("honesty", "-", "δ_y"),
    ("curiosity", "--", "δ_s, teacher's attack"),
    ("retrained", ":", "δ_s, retrained, balanced"),
)
COLOURS = {"standard": "#555555", "parameterised": "#1b6ca8", "regularised": "#b5471b"}


def kept_of(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what each student keeps of its teacher's excess over the standard teacher, by its G and retrained.

    The excess is (δ_s of the teacher) − (δ_s of the standard teacher at the first share), both by their own makers'
    attacks, and the student is read by its teacher's; then the same of the retrained attackers' balanced accuracy.
    """
    found = []
    for row in rows:
        if row["classifier"] != "student" or row["attack"] == "standard":
            continue
        plain = next(one for one in rows if one["case"] == row["case"] and one["attack"] == "standard")
        same = ("case", "attack", "share")
        teacher = next(
            one for one in rows if one["classifier"] == "teacher" and all(one[key] == row[key] for key in same)
        )
        figures: dict[str, Any] = {key: row[key] for key in (*same, "temperature")}
        for name, reading in (("own", "curiosity"), ("retrained", "retrained")):
            base, high, own = (one[reading]["estimate"] for one in (plain, teacher, row))
            figures[f"excess_{name}"] = high - base
            figures[f"kept_{name}"] = (own - base) / (high - base) if high - base >= LEAST else None
        found.append(figures)
    return found


def tables(found: dict[str, Any]) -> list[Table]:
    """Teachers and students, a table for each case, and what students keep."""
    return [*(_table(found, case) for case in dict.fromkeys(row["case"] for row in found["rows"])), _kept(found)]


def _table(found: dict[str, Any], case: str) -> Table:
    from rich.table import Table

    printed = {
        (one["attack"], one["classifier"]): one
        for one in found["paper"]
        if "classifier" in one and one.get("case") == case
    }
    table = Table(title=f"Table 6, {case}: teachers, and students of half the size trained by KL alone")
    for heading in (
        *("attack", "user's", "t", "classifier", "δ_y", "δ_s, teacher's attack", "δ_s, τ anew", "prior"),
        *("retrained, balanced", "attacker", *(("paper δ_y", "paper δ_s") if printed else ())),
    ):
        table.add_column(heading, justify="left" if heading in ("attack", "classifier", "attacker") else "right")
    for row in (row for row in found["rows"] if row["case"] == case):
        first = row["temperature"] in (None, 1.0) and row["share"] == found["rows"][0]["share"]
        beside = printed.get((row["attack"], row["classifier"]), {}) if first else {}
        table.add_row(
            row["attack"],
            f"{row['share']:.0%}",
            "" if row["temperature"] is None else f"{row['temperature']:g}",
            row["classifier"],
            with_interval(row["honesty"]),
            with_interval(row["curiosity"]),
            with_interval(row["threshold"]) if row["threshold"] else "",
            f"{row['prior']['estimate']:.3f}",
            with_interval(row["retrained"]),
            row["attacker"],
            *(f"{beside[name]:.3f}" if name in beside else "" for name in ("honesty", "curiosity") if printed),
        )
    return table


def _kept(found: dict[str, Any]) -> Table:
    from rich.table import Table

    table = Table(title="What a student keeps of its teacher's excess curiosity over the standard teacher")
    for heading in ("case", "attack", "user's", "t", "excess", "kept", "excess, retrained", "kept, retrained"):
        table.add_column(heading, justify="left" if heading in ("case", "attack") else "right")
    for row in found["kept"]:
        cells = [row["case"], row["attack"], f"{row['share']:.0%}", f"{row['temperature']:g}"]
        for name in ("own", "retrained"):
            share = row[f"kept_{name}"]
            cells += [f"{100 * row[f'excess_{name}']:.1f} points", "–" if share is None else f"{share:.0%}"]
        table.add_row(*cells)
    table.caption = f"Not asked (–) where the excess is below {100 * LEAST:g} points."
    return table


def notes(found: dict[str, Any]) -> list[str]:
    """Say what the figures rest on."""
    told = found["settings"]
    given = f"at most {told['most']} records of each split" if told["most"] else "all records"
    lines = [
        f"{told['runs']} run(s); curious teachers are SoftHBC ({told['beta_y']:g}, {told['beta_s']:g}). Students have "
        "half the units of every hidden layer, see no label, and are released at temperature 1; they learn in "
        + (f"{told['student_steps']} steps" if told["student_steps"] else f"{told['student_epochs']} epochs")
        + f" of {told['student_batch']} records.",
        "The teacher's attack is its G or its threshold τ, which never saw the student; τ anew is chosen on the "
        "server's validation records, by the student's outputs.",
        f"Retrained: attackers who learn each classifier's outputs anew, the strongest on validation, an estimate; "
        f"they are given {given}. Intervals 95%, theirs by {told['draws']} bootstrap draws"
        + (", at 97.5% since two choices of attackers are looked at." if told["fresh"] else "."),
    ]
    return lines + closing_notes(found)


def draw(found: dict[str, Any], canvas: Any) -> None:
    """Draw a panel of teachers and students by honesty and curiosity for each case, then two for each sweep."""
    from matplotlib.lines import Line2D

    share, panels = found["rows"][0]["share"], []
    cases = list(dict.fromkeys(row["case"] for row in found["rows"]))
    by_case = {case: [row for row in found["rows"] if row["case"] == case] for case in cases}
    for case, rows in by_case.items():
        first = [row for row in rows if row["share"] == share and row["temperature"] in (None, 1.0)]
        panels.append(partial(_plane, case=case, rows=first))
    for case, rows in by_case.items():
        swept = {row["attack"] for row in rows if row["share"] != share or row["temperature"] not in (None, 1.0)}
        own = [row for row in rows if row["attack"] in swept]
        if own:
            hot, cool = ([r for r in own if r["share"] == share], [r for r in own if r["temperature"] in (None, 1.0)])
            panels += [partial(_sweep, case=case, rows=hot, over="temperature")]
            panels += [partial(_sweep, case=case, rows=cool, over="share")]
    across = max(2, min(4, len(cases)))
    down = -(-len(panels) // across)
    canvas.set_size_inches(3.6 * across, 3.0 * down + 0.7)
    axes = list(canvas.subplots(down, across, squeeze=False).flat)
    for axis, panel in zip(axes, panels, strict=False):
        panel(axis)
    for axis in axes[len(panels) :]:
        axis.axis("off")
    shown = [Line2D([], [], color=colour, label=name) for name, colour in COLOURS.items()]
    shown += [Line2D([], [], color="black", marker=mark, linestyle="", label=name) for name, mark in MARKS.items()]
    shown += [Line2D([], [], color="black", linestyle=style, label=name) for _, style, name in READINGS]
    canvas.legend(handles=shown, loc="outside lower center", ncols=4, frameon=False, fontsize=8)


def _plane(axis: Any, case: str, rows: list[dict[str, Any]]) -> None:
    for attack, colour in COLOURS.items():
        pair = {row["classifier"]: row for row in rows if row["attack"] == attack}
        places = {name: (row["curiosity"]["estimate"], row["honesty"]["estimate"]) for name, row in pair.items()}
        if len(places) == len(MARKS):
            axis.annotate("", places["student"], places["teacher"], arrowprops={"arrowstyle": "->", "color": colour})
        for name, place in places.items():
            axis.plot(*place, MARKS[name], color=colour)
    axis.margins(0.15)
    axis.set(title=case, xlabel="δ_s, teacher's attack", ylabel="δ_y")


def _sweep(axis: Any, case: str, rows: list[dict[str, Any]], over: str) -> None:
    """Draw students over what is swept, joined by lines; teachers where each was trained, not joined."""
    for attack, classifier in dict.fromkeys((row["attack"], row["classifier"]) for row in rows):
        own = [row for row in rows if (row["attack"], row["classifier"]) == (attack, classifier)]
        own.sort(key=lambda row: row[over] or 0)
        for name, style, _ in READINGS:
            values = [row[name]["estimate"] for row in own]
            if classifier == "student":
                places = [row[over] for row in own]
                axis.plot(places, values, MARKS["student"] + style, color=COLOURS[attack], markersize=3.5)
            elif over == "share" and name == "curiosity":
                axis.plot([row[over] for row in own], values, MARKS["teacher"], color=COLOURS[attack])
            elif name == "curiosity":  # one teacher for all temperatures
                axis.axhline(values[0], color=COLOURS[attack], linewidth=0.7)
    axis.margins(0.1)
    label = {"temperature": "temperature t (thin line: teacher's δ_s)", "share": "user's share of the people"}[over]
    axis.set(title=case, xlabel=label, ylabel="test figure")
