"""Charts for a notebook: the page's own, as plotly figures."""

from __future__ import annotations

import html
from typing import Any

from fedveil.core.errors import InputError, nearest
from fedveil.report.figures import Figure
from fedveil.report.gather import gather, stairs
from fedveil.report.marks import Mark, marks
from fedveil.report.sound import attributes_of, pair_of, tasks_of
from fedveil.studies.results import StudyResults

INK, MUTED, GRID, PROVED = "#1f2328", "#565b63", "#e8e3d8", "#14532d"


def plot_frontier(results: StudyResults, task: str | None = None, attribute: str | None = None) -> Any:
    """Return the frontier of one task and attribute, the first of each where none is named, as a plotly `Figure`.

    Marks are settings with 95% intervals; the stairs are the front, chosen on validation; green bars are certified
    bounds, which no attacker exceeds; dashed lines are guessing, the dotted one what the task's label alone gives away.
    """
    graph = _graph_objects()
    task, attribute = _chosen(results, task, attribute)
    data = one_view(results, task, attribute)
    view, settings = data["views"][0][0], data["settings"]
    names, broken = [method["name"] for method in data["methods"]], data["contradictions"][0]
    given: dict[str, Mark] = marks(names)
    figure = graph.Figure()
    xs, ys = stairs(view)
    figure.add_scatter(
        x=xs,
        y=ys,
        mode="lines",
        line={"shape": "hv", "color": INK, "width": 1.6},
        name="front",
        hoverinfo="skip",
    )
    for number, name in enumerate(names):
        mine = [i for i, point in enumerate(view["points"]) if point and settings[i]["method"] == number]
        mine.sort(key=lambda i: settings[i]["strength"] or 0.0)
        if mine:
            points = [view["points"][i] for i in mine]
            figure.add_scatter(
                x=[point["leakage"][0] for point in points],
                y=[point["utility"][0] for point in points],
                error_x=_bars([point["leakage"] for point in points], given[name].light),
                error_y=_bars([point["utility"] for point in points], given[name].light),
                mode="lines+markers",
                line={"color": given[name].light, "width": 1, "dash": "dot"},
                marker={"symbol": given[name].symbol, "size": 11, "color": given[name].light},
                name=_plain(name),
                hoverinfo="text",
                hovertext=[_hover(settings[i]["label"], view, i, bool(broken[i])) for i in mine],
                customdata=mine,
            )
    proved = [i for i, point in enumerate(view["points"]) if point and view["bounds"][i] is not None]
    if proved:
        figure.add_scatter(
            x=[view["bounds"][i] for i in proved],
            y=[view["points"][i]["utility"][0] for i in proved],
            mode="markers",
            marker={"symbol": "line-ns-open", "size": 20, "color": PROVED, "line": {"width": 4, "color": PROVED}},
            name="certified: no attacker reads more",
            hoverinfo="text",
            hovertext=[_hover(settings[i]["label"], view, i, bool(broken[i])) for i in proved],
            customdata=proved,
        )
    _lines(figure, view)
    partial = "" if results.complete else f" (partial: {len(results.cells)} of {len(results.planned)} cells)"
    figure.update_layout(
        title=_plain(f"{results.name}{partial}"),
        xaxis_title=_plain(f"leakage: balanced accuracy of reading {attribute} → worse"),
        yaxis_title=_plain(f"utility: accuracy of {task} → better"),
        template="plotly_white",
        font={"color": INK},
        hovermode="closest",
        legend={"orientation": "h", "y": -0.2},
    )
    return figure


def one_view(results: StudyResults, task: str, attribute: str) -> dict[str, Any]:
    """Return what `gather` gathers, of one task and one attribute."""
    return gather(results, [[pair_of(results, task, attribute)]], [attribute])


def _chosen(results: StudyResults, task: str | None, attribute: str | None) -> tuple[str, str]:
    found = []
    asked = ((task, tasks_of(results), "task"), (attribute, attributes_of(results), "attribute"))
    for name, known, what in asked:
        if not results.cells or not known:
            raise InputError(f"{results.folder}: no cell is finished yet; run the study first")
        if name is not None and name not in known:
            raise InputError(f"{results.folder}: no {what} {name!r} in the study: {nearest(name, known)}")
        found.append(name or known[0])
    return found[0], found[1]


def _lines(figure: Any, view: dict[str, Any]) -> None:
    if "chance" not in view:
        return
    note = {"annotation_font": {"size": 11, "color": MUTED}}
    dashed = {"line": {"color": MUTED, "width": 1.2, "dash": "dash"}}
    figure.add_vline(x=view["chance"], annotation_text=f"guessing {view['chance']:.2f}", **dashed, **note)
    figure.add_hline(
        y=view["utility_prior"],
        annotation_text=f"guessing the task {view['utility_prior']:.2f}",
        annotation_position="bottom right",
        **dashed,
        **note,
    )
    if view["floor"]:
        figure.add_vline(
            x=view["floor"][0],
            line={"color": MUTED, "width": 1.2, "dash": "dot"},
            annotation_text=f"floor {view['floor'][0]:.2f}",
            annotation_position="bottom right",
            **note,
        )


def _hover(label: str, view: dict[str, Any], index: int, contradicted: bool) -> str:
    point = view["points"][index]
    lines = [f"<b>{_plain(label)}</b>"]
    lines += [f"{name} {_told(point[name])}" for name in ("leakage", "utility")]
    if view["cotrained"][index]:
        lines.append(f"co-trained adversary: {_told(view['cotrained'][index])}")
    if view["bounds"][index] is not None:
        lines.append(f"CERTIFIED ≤ {view['bounds'][index]:.4f}{', CONTRADICTED' if contradicted else ''}")
    return "<br>".join(lines)


def _plain(text: str) -> str:
    """Return text that plotly shows as it stands, neither as markup nor as a formula."""
    return html.escape(text, quote=False).replace("$", "&#36;")


def _told(figure: Figure) -> str:
    return f"{figure[0]:.3f} [{figure[1]:.3f}, {figure[2]:.3f}]"


def _bars(figures: list[Figure], colour: str) -> dict[str, Any]:
    return {
        "type": "data",
        "symmetric": False,
        "array": [one[2] - one[0] for one in figures],
        "arrayminus": [one[0] - one[1] for one in figures],
        "color": colour,
        "thickness": 1,
        "width": 0,
    }


def _graph_objects() -> Any:
    try:
        import plotly.graph_objects as graph
    except ImportError:
        raise InputError("charts need plotly; install it: pip install 'fedveil[report]'") from None
    return graph
