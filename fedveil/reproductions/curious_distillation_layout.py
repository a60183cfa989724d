"""How teachers and students are laid out: tables, what students keep, notes, picture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fedveil.reproductions.shown import with_interval

if TYPE_CHECKING:
    from rich.table import Table

LEAST = 0.1
"""From such an excess of the teacher's curiosity on, it is asked what the student keeps of it."""

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
    """Teachers and students, and what students keep."""
    from rich.table import Table

    printed = {(one["case"], one["attack"], one["classifier"]): one for one in found["paper"] if "classifier" in one}
    table = Table(title="Table 6 and beyond: teachers, and students of half the size trained by KL alone")
    for heading in (
        *("case", "attack", "user's", "t", "classifier", "δ_y", "δ_s, teacher's attack", "δ_s, τ anew", "prior"),
        *("retrained, balanced", "attacker", "paper δ_y", "paper δ_s"),
    ):
        table.add_column(
            heading, justify="left" if heading in ("case", "attack", "classifier", "attacker") else "right"
        )
    for row in found["rows"]:
        first = row["temperature"] in (None, 1.0) and row["share"] == found["rows"][0]["share"]
        beside = printed.get((row["case"], row["attack"], row["classifier"]), {}) if first else {}
        table.add_row(
            row["case"],
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
            *(f"{beside[name]:.3f}" if name in beside else "" for name in ("honesty", "curiosity")),
        )
    return [table, _kept(found)]


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
    for name, sizes in found["cases"].items():
        lines.append(f"{name}: " + ", ".join(f"{key} {value}" for key, value in sizes.items() if value) + ".")
    return lines + [str(one["note"]) for one in found["paper"] if "note" in one]


def draw(found: dict[str, Any], canvas: Any) -> None:
    """Draw for each case teachers and students by honesty and curiosity, then the sweeps."""
    cases = list(dict.fromkeys(row["case"] for row in found["rows"]))
    canvas.set_size_inches(10.5, 2.9 * len(cases) + 0.4)
    for line, case in zip(canvas.subplots(len(cases), 3, squeeze=False), cases, strict=True):
        rows = [row for row in found["rows"] if row["case"] == case]
        share = rows[0]["share"]
        _plane(line[0], [row for row in rows if row["share"] == share and row["temperature"] in (None, 1.0)])
        line[0].set(title=case, xlabel="δ_s, teacher's attack", ylabel="δ_y")
        for axis, title, label in (
            (line[1], "students by temperature (line: teacher's δ_s)", "temperature t"),
            (line[2], "by the user's share of the people", "share"),
        ):
            axis.set(title=title, xlabel=label)
        swept = [row["attack"] for row in rows if row["share"] != share or row["temperature"] not in (None, 1.0)]
        for attack in dict.fromkeys(swept):
            own = [row for row in rows if row["attack"] == attack]
            students = [row for row in own if row["classifier"] == "student"]
            hot = [row for row in students if row["share"] == share]
            _sweep(line[1], hot, "temperature", attack)
            _sweep(line[2], [row for row in students if row["temperature"] == 1.0], "share", attack)
            teachers = sorted((row for row in own if row["classifier"] == "teacher"), key=lambda row: row["share"])
            values = [row["curiosity"]["estimate"] for row in teachers]
            line[2].plot([row["share"] for row in teachers], values, "s", color="black", label="δ_s of the teacher")
            line[1].axhline(values[[row["share"] for row in teachers].index(share)], color="black", linewidth=0.7)
        if swept:
            line[2].legend(frameon=False, fontsize=7)
        else:
            line[1].axis("off")
            line[2].axis("off")


def _plane(axis: Any, rows: list[dict[str, Any]]) -> None:
    for attack, colour in COLOURS.items():
        pair = [row for row in rows if row["attack"] == attack]
        places = [(row["curiosity"]["estimate"], row["honesty"]["estimate"]) for row in pair]
        if len(places) == 2:
            axis.annotate("", places[1], places[0], arrowprops={"arrowstyle": "->", "color": colour})
        for place, marker in zip(places, "so", strict=False):
            axis.plot(*place, marker, color=colour, label=f"{attack} {'teacher' if marker == 's' else 'student'}")
    axis.margins(0.15)
    axis.legend(frameon=False, fontsize=6.5)


def _sweep(axis: Any, rows: list[dict[str, Any]], over: str, attack: str) -> None:
    rows = sorted(rows, key=lambda row: row[over])
    places = [row[over] for row in rows]
    for name, style, label in (
        ("honesty", "-o", "δ_y"),
        ("curiosity", "--o", "δ_s, teacher's G"),
        ("retrained", ":o", "δ_s, retrained, balanced"),
    ):
        values = [row[name]["estimate"] for row in rows]
        axis.plot(places, values, style, color=COLOURS[attack], markersize=3, label=label)
