"""Export: the page's figures as PNG and its table as LaTeX (booktabs), for a paper.

Names are printed literally, whatever they contain, and are never run as commands.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedveil.core.errors import InputError
from fedveil.report.figures import Figure
from fedveil.report.gather import PageData, StudyFigures, page_data
from fedveil.report.marks import COLOURS, VALUE_MARKS
from fedveil.studies.results import StudyResults

_MUTED, _PROVED = "#565b63", "#14532d"

_ESCAPES = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
}


def export(results: StudyResults, folder: str | Path) -> list[Path]:
    """Write frontiers, attackers, losses and maps as PNG and the results as LaTeX; return the files.

    `table.tex` needs LaTeX's package booktabs.
    """
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure as Canvas
    except ImportError:
        raise InputError("figures need matplotlib; install it: pip install 'fedveil[report]'") from None
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: is a file; name a directory with --export")
    page = page_data(results)
    figures = page.figures
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    look: Any = {"text.parse_math": False, "font.size": 9, "axes.spines.top": False, "axes.spines.right": False}
    with mpl.rc_context(look), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # a name in a script that the font lacks is drawn as boxes

        def save(name: str, canvas: Any) -> None:
            canvas.savefig(folder / f"{name}.png", dpi=200, metadata={"Software": None})
            written.append(folder / f"{name}.png")

        for t, task in enumerate(figures.tasks):
            for a, attribute in enumerate(figures.attributes):
                if any(figures.views[t][a].points):
                    save(_file("frontier", t, task, a, attribute), _frontier(Canvas, figures, t, a))
        for a, attribute in enumerate(figures.attributes):
            if any(figures.attackers[a]):
                save(_file("attackers", a, attribute), _attackers(Canvas, figures, a))
            if any(page.maps.released):
                save(_file("maps", a, attribute), _maps(Canvas, page, a))
        if any(seed.curves for seeds in page.losses for seed in seeds):
            save("losses", _losses(Canvas, page))
    table = folder / "table.tex"
    table.write_text(latex_table(figures), encoding="utf-8")
    return [*written, table]


def _frontier(canvas: Any, data: StudyFigures, t: int, a: int) -> Any:
    view = data.views[t][a]
    picture = canvas(figsize=(6.4, 4.4), layout="constrained")
    axes = picture.add_subplot()
    xs, ys = view.stairs()
    if xs:
        axes.step(xs, ys, where="post", color="black", linewidth=1.2, label="front")
    for number, (name, mark) in enumerate(data.methods.items()):
        indices = [i for i, setting in enumerate(data.settings) if setting.method == number]
        indices.sort(key=lambda i: data.settings[i].strength or 0.0)
        points = [point for i in indices if (point := view.points[i]) is not None]
        if points:
            axes.errorbar(
                [point.leakage.estimate for point in points],
                [point.utility.estimate for point in points],
                xerr=_ends([point.leakage for point in points]),
                yerr=_ends([point.utility for point in points]),
                color=mark.light,
                marker=mark.marker,
                linestyle=":",
                linewidth=0.8,
                elinewidth=0.7,
                markersize=6,
                label=name,
            )
    if proved := view.proved():
        limits, heights = [bound for _, bound, _ in proved], [point.utility.estimate for _, _, point in proved]
        axes.plot(limits, heights, "|", color=_PROVED, markersize=13, markeredgewidth=3, label="certified bound")
    if view.lines is not None:
        dashed = {"color": _MUTED, "linestyle": "--", "linewidth": 0.8}
        axes.axvline(view.lines.chance, **dashed)
        axes.axhline(view.lines.utility_prior, **dashed)
        if view.lines.floor is not None:
            dotted = {**dashed, "linestyle": ":"}
            axes.axvline(view.lines.floor.estimate, **dotted, label="floor: the task's label alone")
    axes.set_xlabel(f"leakage: balanced accuracy of reading {data.attributes[a]} (dashed: guessing)")
    axes.set_ylabel(f"utility: accuracy of {data.tasks[t]}")
    axes.legend(fontsize=7.5, frameon=False)
    if not data.complete:
        axes.set_title(f"partial: {data.finished} of {data.planned} cells", loc="left", fontsize=8)
    return picture


def _attackers(canvas: Any, data: StudyFigures, a: int) -> Any:
    """Draw a row for each setting with a mark for each attacker; the co-trained one is hollow."""
    listed = zip(data.settings, data.attackers[a], strict=True)
    rows = [(setting.label, attackers) for setting, attackers in listed if attackers][:40]
    marked: dict[str, list[tuple[float, int]]] = {}
    cotrained: list[tuple[float, int]] = []
    for number, (_, attackers) in enumerate(rows):
        for attacker in attackers:
            places = cotrained if attacker.kind == "cotrained" else marked.setdefault(attacker.name, [])
            if attacker.balanced_accuracy is not None:
                places.append((attacker.balanced_accuracy.estimate, number))
    picture = canvas(figsize=(6.4, 1.2 + 0.28 * len(rows)), layout="constrained")
    axes = picture.add_subplot()
    for number, (name, places) in enumerate(marked.items()):
        mark = VALUE_MARKS[number % len(VALUE_MARKS)]
        look = {"color": mark.light, "markersize": 5, "linestyle": "", "label": name}
        axes.plot([x for x, _ in places], [y for _, y in places], mark.marker, **look)
    if cotrained:
        hollow = {"markerfacecolor": "white", "color": "black", "markersize": 6, "label": "co-trained"}
        axes.plot([x for x, _ in cotrained], [y for _, y in cotrained], "D", **hollow)
    axes.set_yticks(range(len(rows)), [label[:40] for label, _ in rows], fontsize=7.5)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlabel(f"balanced accuracy of reading {data.attributes[a]}")
    axes.grid(axis="y", linewidth=0.3)
    axes.legend(fontsize=7.5, frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    return picture


def _maps(canvas: Any, page: PageData, a: int) -> Any:
    listed = zip(page.figures.settings, page.maps.released, strict=True)
    released = [(setting.label, people) for setting, people in listed if people is not None][:5]
    raw = page.maps.raw.get(released[0][1].seed)
    panels = [*([] if raw is None else [("raw inputs", raw)]), *released]
    picture = canvas(figsize=(2.3 * min(3, len(panels)), 2.5 * -(-len(panels) // 3)), layout="constrained")
    for number, (label, people) in enumerate(panels):
        axes = picture.add_subplot(-(-len(panels) // 3), min(3, len(panels)), number + 1)
        for code, value in enumerate(page.maps.values[a]):
            mark = VALUE_MARKS[code % len(VALUE_MARKS)]
            triples = zip(*people.places, people.codes[a], strict=False)  # codes may be lost
            places = [(x, y) for x, y, held in triples if held == code]
            look = {"color": mark.light, "markersize": 2, "linestyle": "", "label": value[:30]}
            axes.plot([x for x, _ in places], [y for _, y in places], mark.marker, **look)
        axes.set_title(label[:36], fontsize=7.5)
        axes.set_axis_off()
        if number == 0:
            picture.legend(
                *axes.get_legend_handles_labels(), fontsize=7, frameon=False, loc="outside lower center", ncols=4
            )
    return picture


def _losses(canvas: Any, page: PageData) -> Any:
    each = zip(page.figures.settings, page.losses, strict=True)
    panels = [(setting.label, seeds) for setting, seeds in each if any(seed.curves for seed in seeds)][:12]
    picture = canvas(figsize=(2.4 * min(3, len(panels)), 2.0 * -(-len(panels) // 3)), layout="constrained")
    styles = ("-", "--", ":", "-.")
    for number, (label, seeds) in enumerate(panels):
        axes = picture.add_subplot(-(-len(panels) // 3), min(3, len(panels)), number + 1)
        names = list(dict.fromkeys(curve.name for seed in seeds for curve in seed.curves))
        for seed in seeds:
            for curve in seed.curves:
                n = names.index(curve.name)
                heights = [float("nan") if loss is None else loss for loss in curve.losses]
                named = {"label": curve.name} if seed is seeds[0] else {}
                look = {"color": COLOURS[n % len(COLOURS)][0], "linewidth": 1}
                axes.plot(curve.rounds, heights, styles[n % len(styles)], **look, **named)
        axes.set_title(label[:36], fontsize=7.5)
        axes.tick_params(labelsize=6.5)
        axes.legend(fontsize=6, frameon=False)
    picture.supxlabel("round", fontsize=8)
    picture.supylabel("loss", fontsize=8)
    return picture


def _ends(figures: Sequence[Figure]) -> list[list[float]]:
    lows = [max(0.0, figure.estimate - figure.low) for figure in figures]
    return [lows, [max(0.0, figure.high - figure.estimate) for figure in figures]]


def _file(kind: str, *parts: str | int) -> str:
    """Return a file name made of the plain letters of the parts, with their numbers so that no two names are equal."""
    plain = [str(part) if isinstance(part, int) else re.sub(r"[^A-Za-z0-9]+", "_", part)[:30] for part in parts]
    return "-".join(word.strip("_") for word in [kind, *plain] if word.strip("_"))


def latex_table(data: StudyFigures) -> str:
    """Return a table for each task and attribute: estimates with intervals, certified bounds in a separate column."""
    tables = [_table(data, t, a) for t in range(len(data.tasks)) for a in range(len(data.attributes))]
    return "% Needs \\usepackage{booktabs}.\n" + "\n".join(tables)


def latex_text(text: str) -> str:
    r"""Return text that LaTeX prints as it stands.

    >>> latex_text("50% of_x")
    '50\\% of\\_x'
    """
    return "".join(_ESCAPES.get(letter, letter if letter.isprintable() else " ") for letter in text)


def _table(data: StudyFigures, t: int, a: int) -> str:
    view, task, attribute = data.views[t][a], latex_text(data.tasks[t]), latex_text(data.attributes[a])
    rows = []
    for i, setting in enumerate(data.settings):
        point, limit = view.points[i], view.bounds[i]
        bound = "--" if limit is None else f"$\\leq {math.ceil(round(limit * 1e3, 6)) / 1e3:.3f}$"
        bound += " (contradicted)" if data.contradictions[a][i] else ""
        cotrained = str(view.cotrained[i] or "--")
        leakage, utility = ("missing", "missing") if point is None else (str(point.leakage), str(point.utility))
        figures = [leakage, cotrained, utility]
        rows.append(" & ".join([latex_text(setting.label), *figures, bound]) + r" \\")
    partial = "" if data.complete else f" Partial: {data.finished} of {data.planned} cells."
    caption = (
        f"{latex_text(data.name)}: leakage of {attribute} (balanced accuracy of the strongest attacker tried, an "
        f"estimate), what the co-trained adversary reads, utility (accuracy of {task}), with "
        rf"95\% intervals; certified: what no attacker can exceed.{partial}"
    )
    return "\n".join(
        [
            r"\begin{table}",
            rf"\caption{{{caption}}}",
            r"\begin{tabular}{lrrrr}",
            r"\toprule",
            r"setting & leakage & co-trained & utility & certified \\",
            r"\midrule",
            *rows,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )
