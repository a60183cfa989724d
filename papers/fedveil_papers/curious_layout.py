"""How tables of curious classifiers are laid out: rows with the paper's figures, notes, picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table

_CLASSES = ("age_classes", "race_classes")
COLOURS = ("#1b6ca8", "#b5471b", "#2a7f5b", "#7a4fa3", "#c2952b", "#5a5a5a", "#c4577f", "#3fa7b8")


def percent(figure: Mapping[str, float] | None) -> str:
    """Return a share in percent: mean ± standard deviation over runs, or with its interval."""
    if figure is None:
        return "–"
    point = f"{100 * figure['estimate']:.1f}"
    if "deviation" in figure:
        return f"{point} ± {100 * figure['deviation']:.1f}"
    return f"{point} [{100 * figure['low']:.1f}, {100 * figure['high']:.1f}]"


def named(row: Mapping[str, Any]) -> str:
    """Return a row's setting, with what varies besides classes."""
    further = [
        f"{name} {'-'.join(map(str, value)) if isinstance(value, list) else value}"
        for name, value in row["point"].items()
        if name not in _CLASSES
    ]
    return ", ".join([row["setting"], *further])


def task(row: Mapping[str, Any]) -> str:
    """Return y and s with their numbers of classes."""
    if row["dedicated"]:
        return f"{row['secret']} {row['S']}, dedicated"
    together = f" (of {' and '.join(row['together'])})" if len(row["together"]) > 1 else ""
    return f"{row['target']} {row['Y']} / {row['secret']} {row['S']}{together}"


def tables(found: dict[str, Any]) -> list[Table]:
    """Return each table's honesty and curiosity, all outputs' shape, and joint distributions."""
    made = [
        _told(name, [row for row in found["rows"] if row["table"] == name], found["runs"])
        for name in dict.fromkeys(row["table"] for row in found["rows"])
    ]
    made.append(_shapes(found))
    return made + ([_joints(found)] if found["joints"] else [])


def _headed(title: str, left: Sequence[str], right: Sequence[str]) -> Table:
    from rich.table import Table

    table = Table(title=title)
    for heading in (*left, *right):
        table.add_column(heading, justify="left" if heading in left else "right")
    return table


def _told(name: str, rows: Sequence[Mapping[str, Any]], runs: int) -> Table:
    beside = ("paper",) if any(row["paper"] for row in rows) else ()
    headings = ("δ_y", *beside, "δ_s, own G", *beside, "prior", "retrained", "balanced", "attacker", "way, G", "way")
    table = _headed(f"{name}: percent, test people, {runs} run(s)", ("y / s", "setting"), headings)
    for row in rows:
        paper = [[row["paper"].get(figure, "")] if beside else [] for figure in ("honesty", "curiosity")]
        ways = ("" if row.get(key) is None else f"{100 * row[key]:.0f}" for key in ("way_own", "way_balanced"))
        table.add_row(
            task(row),
            named(row),
            percent(row["honesty"]),
            *paper[0],
            percent(row["own"]),
            *paper[1],
            f"{100 * row['prior']['estimate']:.1f}",
            percent(row["accuracy"]),
            percent(row["balanced"]),
            row["attacker"],
            *ways,
        )
    return table


def _shapes(found: dict[str, Any]) -> Table:
    headings = ("H(ŷ), bits", "paper", "train − test", "bits about s", "epoch kept", "seconds")
    table = _headed("Outputs and generalisation (Appendix D)", ("table", "y / s", "setting"), headings)
    for row in found["rows"]:
        entropy = row["entropy"]
        spread = f" ± {entropy['deviation']:.2f}" if "deviation" in entropy else ""
        table.add_row(
            row["table"],
            task(row),
            named(row),
            f"{entropy['estimate']:.2f}{spread}",
            row["paper"].get("entropy", ""),
            percent(row["gap"]),
            f"{row['information']['estimate']:.3f}",
            f"{row['kept']:g} of {row['epochs']}",
            f"{row['seconds']:.0f}",
        )
    return table


def _joints(found: dict[str, Any]) -> Table:
    table = _headed("Table 1A: p(s, y) among training people", ("y / s",), ("p(s, y), a row per s", "paper", "bits"))
    table.add_column("paper", justify="right")
    paper = {one["secret"]: one for one in found["paper"] if "joint" in one}
    for row in found["joints"]:
        told = paper.get(row["secret"], {})
        cells = [
            "; ".join(" ".join(f"{p:.3f}" for p in line) for line in part or [])
            for part in (row["joint"], told.get("joint"))
        ]
        table.add_row(
            f"{row['target']} / {row['secret']}", *cells, f"{row['information']:.3f}", str(told.get("information", ""))
        )
    return table


def notes(found: dict[str, Any]) -> list[str]:
    """Say what the figures rest on."""
    fresh = (
        "the training people's outputs or, since F overfits them, from those of the other half of the test people, "
        "whichever reads more (intervals at 97.5% for the two looks)"
        if any(row["fresh"] for row in found["rows"])
        else "the training people's outputs"
    )
    lines = [
        "δ_y: accuracy of F; δ_s: accuracy of the attack G that was trained with F (the paper's figure). Of Std rows "
        "it is overlearning: G trained beside a standard F. Epochs are chosen on validation people, all figures are "
        "test people's.",
        f"Retrained: accuracy and balanced accuracy of the strongest of the panel, who learns from {fresh}. Estimates.",
        *(
            f"{row['table']}, {task(row)}, {named(row)}: too few test people of some value to learn from."
            for row in found["rows"]
            if found["fresh"] and not row["fresh"]
        ),
        "Way: percent of the way from the standard classifier's curiosity to that of a classifier dedicated to s, by "
        "G's accuracy and by retrained balanced accuracy.",
    ]
    lines += [_areas(row, found["paper"]) for row in found["rows"] if "roc" in row]
    return lines + [str(one["note"]) for one in found["paper"] if "note" in one]


def _areas(row: Mapping[str, Any], paper: Sequence[Mapping[str, Any]]) -> str:
    """Say the areas under a row's ROC curves, the paper's beside them."""
    told: Mapping[str, float] = next((one["area"] for one in paper if "area" in one and _same(one, row)), {})
    areas = (
        f"of {label} {row['roc'][label]['area']:.2f}" + (f" (the paper: {told[label]:g})" if label in told else "")
        for label in ("y", "s")
    )
    return f"{row['table']}, {named(row)}: area under the ROC curve {', '.join(areas)}."


def _same(one: Mapping[str, Any], row: Mapping[str, Any]) -> bool:
    return bool(one.get("table") == row["table"] and one.get("setting") == row["setting"])


def draw(found: dict[str, Any], canvas: Any) -> None:
    """Draw honesty against curiosity table by table, then Figures 7 and 8 where they were asked for."""
    from fedveil_papers import curious_pictures as pictures

    names = list(dict.fromkeys(row["table"] for row in found["rows"] if not row["dedicated"]))
    panels: list[tuple[Any, Any]] = [
        (pictures.trade_off, [row for row in found["rows"] if row["table"] == name]) for name in names
    ]
    panels += [(pictures.roc, own) for own in pictures.with_extra(found["rows"], "roc")]
    panels += [(pictures.entropies, own) for own in pictures.with_extra(found["rows"], "histogram")]
    columns = min(3, len(panels))
    lines = -(-len(panels) // columns)
    canvas.set_size_inches(5.2 * columns, 3.8 * lines)
    axes = list(canvas.subplots(lines, columns, squeeze=False).flat)
    for axis, (draw_one, rows) in zip(axes, panels, strict=False):
        draw_one(axis, rows)
    for axis in axes[len(panels) :]:
        axis.axis("off")
