"""Export: the page's figures as PNG and its table as LaTeX, for a paper."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

from fedveil.core.errors import InputError
from fedveil.report.build import page_data
from fedveil.report.figures import Figure
from fedveil.report.gather import stairs
from fedveil.report.latex import latex_table
from fedveil.studies.results import StudyResults

_MUTED, _PROVED = "#565b63", "#14532d"


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
    data = page_data(results)
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    look: Any = {"text.parse_math": False, "font.size": 9, "axes.spines.top": False, "axes.spines.right": False}
    with mpl.rc_context(look), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # a name in a script that the font lacks is drawn as boxes

        def save(name: str, canvas: Any) -> None:
            canvas.savefig(folder / f"{name}.png", dpi=200, metadata={"Software": None})
            written.append(folder / f"{name}.png")

        for t, task in enumerate(data["tasks"]):
            for a, attribute in enumerate(data["attributes"]):
                if any(data["views"][t][a]["points"]):
                    save(_file("frontier", t, task, a, attribute), _frontier(Canvas, data, t, a))
        for a, attribute in enumerate(data["attributes"]):
            if any(data["attackers"][a]):
                save(_file("attackers", a, attribute), _attackers(Canvas, data, a))
            if any(data["maps"]["released"]):
                save(_file("maps", a, attribute), _maps(Canvas, data, a))
        if any(run["curves"] for runs in data["losses"] for run in runs):
            save("losses", _losses(Canvas, data))
    table = folder / "table.tex"
    table.write_text(latex_table(data), encoding="utf-8")
    return [*written, table]


def _frontier(canvas: Any, data: dict[str, Any], t: int, a: int) -> Any:
    view = data["views"][t][a]
    made = canvas(figsize=(6.4, 4.4), layout="constrained")
    axes = made.add_subplot()
    xs, ys = stairs(view)
    if xs:
        axes.step(xs, ys, where="post", color="black", linewidth=1.2, label="front")
    for number, method in enumerate(data["methods"]):
        mine = [i for i, s in enumerate(data["settings"]) if s["method"] == number and view["points"][i]]
        mine.sort(key=lambda i: data["settings"][i]["strength"] or 0.0)
        points = [view["points"][i] for i in mine]
        if points:
            axes.errorbar(
                [p["leakage"][0] for p in points],
                [p["utility"][0] for p in points],
                xerr=_ends([p["leakage"] for p in points]),
                yerr=_ends([p["utility"] for p in points]),
                color=method["light"],
                marker=method["marker"],
                linestyle=":",
                linewidth=0.8,
                elinewidth=0.7,
                markersize=6,
                label=method["name"],
            )
    proved = [i for i, point in enumerate(view["points"]) if point and view["bounds"][i] is not None]
    if proved:
        heights = [view["points"][i]["utility"][0] for i in proved]
        limits = [view["bounds"][i] for i in proved]
        axes.plot(limits, heights, "|", color=_PROVED, markersize=13, markeredgewidth=3, label="certified bound")
    if "chance" in view:
        axes.axvline(view["chance"], color=_MUTED, linestyle="--", linewidth=0.8)
        axes.axhline(view["utility_prior"], color=_MUTED, linestyle="--", linewidth=0.8)
    if view.get("floor"):
        axes.axvline(
            view["floor"][0], color=_MUTED, linestyle=":", linewidth=0.8, label="floor: the task's label alone"
        )
    axes.set_xlabel(f"leakage: balanced accuracy of reading {data['attributes'][a]} (dashed: guessing)")
    axes.set_ylabel(f"utility: accuracy of {data['tasks'][t]}")
    axes.legend(fontsize=7.5, frameon=False)
    if not data["complete"]:
        axes.set_title(f"partial: {data['finished']} of {data['planned']} cells", loc="left", fontsize=8)
    return made


def _attackers(canvas: Any, data: dict[str, Any], a: int) -> Any:
    """Every setting a row, every attacker a mark in it; the co-trained one hollow."""
    rows = [(s["label"], data["attackers"][a][i]) for i, s in enumerate(data["settings"]) if data["attackers"][a][i]][
        :40
    ]
    names = list(dict.fromkeys(one["name"] for _, found in rows for one in found if one["kind"] != "cotrained"))
    made = canvas(figsize=(6.4, 1.2 + 0.28 * len(rows)), layout="constrained")
    axes = made.add_subplot()
    for n, name in enumerate(names):
        mark = data["value_marks"][n % len(data["value_marks"])]
        places = [(one["balanced_accuracy"][0], r) for r, (_, f) in enumerate(rows) for one in f if _is(one, name)]
        axes.plot(
            *zip(*places, strict=True), mark["marker"], color=mark["light"], markersize=5, linestyle="", label=name
        )
    along = [
        (one["balanced_accuracy"][0], r)
        for r, (_, found) in enumerate(rows)
        for one in found
        if one["kind"] == "cotrained" and one["balanced_accuracy"]
    ]
    if along:
        hollow = {"markerfacecolor": "white", "color": "black", "markersize": 6, "label": "co-trained"}
        axes.plot(*zip(*along, strict=True), "D", **hollow)
    axes.set_yticks(range(len(rows)), [label[:40] for label, _ in rows], fontsize=7.5)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlabel(f"balanced accuracy of reading {data['attributes'][a]}")
    axes.grid(axis="y", linewidth=0.3)
    axes.legend(fontsize=7.5, frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    return made


def _is(one: dict[str, Any], name: str) -> bool:
    return bool(one["name"] == name and one["kind"] != "cotrained" and one["balanced_accuracy"])


def _maps(canvas: Any, data: dict[str, Any], a: int) -> Any:
    shown = [(data["settings"][i]["label"], one) for i, one in enumerate(data["maps"]["released"]) if one][:5]
    raw = data["maps"]["raw"].get(str(shown[0][1]["seed"]))
    panels = ([("raw inputs", raw)] if raw else []) + shown
    made = canvas(figsize=(2.3 * min(3, len(panels)), 2.5 * -(-len(panels) // 3)), layout="constrained")
    for number, (label, one) in enumerate(panels):
        axes = made.add_subplot(-(-len(panels) // 3), min(3, len(panels)), number + 1)
        own = data["maps"]["raw"].get(str(one.get("seed")), one)
        codes = (one.get("codes") or own.get("codes"))[a]
        for v, value in enumerate(data["maps"]["values"][a]):
            mark = data["value_marks"][v % len(data["value_marks"])]
            who = [k for k, code in enumerate(codes) if code == v and k < len(one["places"][0])]
            xs, ys = ([one["places"][axis][k] for k in who] for axis in (0, 1))
            axes.plot(xs, ys, mark["marker"], color=mark["light"], markersize=2, linestyle="", label=value[:30])
        axes.set_title(label[:36], fontsize=7.5)
        axes.set_axis_off()
        if number == 0:
            made.legend(
                *axes.get_legend_handles_labels(), fontsize=7, frameon=False, loc="outside lower center", ncols=4
            )
    return made


def _losses(canvas: Any, data: dict[str, Any]) -> Any:
    each = zip(data["settings"], data["losses"], strict=True)
    shown = [(setting["label"], runs) for setting, runs in each if any(run["curves"] for run in runs)][:12]
    made = canvas(figsize=(2.4 * min(3, len(shown)), 2.0 * -(-len(shown) // 3)), layout="constrained")
    styles = ("-", "--", ":", "-.")
    for number, (label, runs) in enumerate(shown):
        axes = made.add_subplot(-(-len(shown) // 3), min(3, len(shown)), number + 1)
        names = list(dict.fromkeys(curve["name"] for run in runs for curve in run["curves"]))
        for run in runs:
            for curve in run["curves"]:
                n = names.index(curve["name"])
                heights = [float("nan") if y is None else y for y in curve["y"]]
                colour = data["palette"][n % len(data["palette"])][0]
                own = {} if run is not runs[0] else {"label": curve["name"]}
                axes.plot(curve["x"], heights, styles[n % len(styles)], color=colour, linewidth=1, **own)
        axes.set_title(label[:36], fontsize=7.5)
        axes.tick_params(labelsize=6.5)
        axes.legend(fontsize=6, frameon=False)
    made.supxlabel("round", fontsize=8)
    made.supylabel("loss", fontsize=8)
    return made


def _ends(figures: list[Figure]) -> list[list[float]]:
    return [[max(0.0, one[0] - one[1]) for one in figures], [max(0.0, one[2] - one[0]) for one in figures]]


def _file(kind: str, *parts: Any) -> str:
    """Name a file after names that may be anything: their plain letters, and their numbers so that no two meet."""
    plain = [str(part) if isinstance(part, int) else re.sub(r"[^A-Za-z0-9]+", "_", part)[:30] for part in parts]
    return "-".join(word.strip("_") for word in [kind, *plain] if word.strip("_"))
