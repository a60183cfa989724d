"""The page's frontier as a plotly figure, for a notebook."""

from __future__ import annotations

import html
from typing import Any

from fedveil.core.errors import InputError, nearest
from fedveil.report.figures import Figure
from fedveil.report.gather import Lines, PairView, gather
from fedveil.report.pairs import pair_of
from fedveil.studies.results import StudyResults

INK, MUTED, PROVED = "#1f2328", "#565b63", "#14532d"


def plot_frontier(results: StudyResults, task: str | None = None, attribute: str | None = None) -> Any:
    """Return the frontier of one task and attribute (default: the first of each) as a plotly `Figure`.

    Marks are settings with 95% intervals; the stairs are the front, chosen on validation; green bars are certified
    bounds, which no attacker exceeds. Dashed lines show guessing; the dotted line shows what the task's label alone
    gives away.
    """
    graph = _graph_objects()
    task, attribute = _chosen(results, task, attribute)
    data = gather(results, [[pair_of(results, task, attribute)]], [attribute])
    view, settings, broken = data.views[0][0], data.settings, data.contradictions[0]
    figure = graph.Figure()
    xs, ys = view.stairs()
    figure.add_scatter(
        x=xs,
        y=ys,
        mode="lines",
        line={"shape": "hv", "color": INK, "width": 1.6},
        name="front",
        hoverinfo="skip",
    )
    for number, (name, mark) in enumerate(data.methods.items()):
        indices = [i for i, point in enumerate(view.points) if point and settings[i].method == number]
        indices.sort(key=lambda i: settings[i].strength or 0.0)
        points = [point for i in indices if (point := view.points[i]) is not None]
        if points:
            figure.add_scatter(
                x=[point.leakage.estimate for point in points],
                y=[point.utility.estimate for point in points],
                error_x=_bars([point.leakage for point in points], mark.light),
                error_y=_bars([point.utility for point in points], mark.light),
                mode="lines+markers",
                line={"color": mark.light, "width": 1, "dash": "dot"},
                marker={"symbol": mark.symbol, "size": 11, "color": mark.light},
                name=_plain(name),
                hoverinfo="text",
                hovertext=[_hover(settings[i].label, view, i, bool(broken[i])) for i in indices],
                customdata=indices,
            )
    proved = view.proved()
    if proved:
        figure.add_scatter(
            x=[bound for _, bound, _ in proved],
            y=[point.utility.estimate for _, _, point in proved],
            mode="markers",
            marker={"symbol": "line-ns-open", "size": 20, "color": PROVED, "line": {"width": 4, "color": PROVED}},
            name="certified: no attacker reads more",
            hoverinfo="text",
            hovertext=[_hover(settings[i].label, view, i, bool(broken[i])) for i, _, _ in proved],
            customdata=[i for i, _, _ in proved],
        )
    _lines(figure, view.lines)
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


def _chosen(results: StudyResults, task: str | None, attribute: str | None) -> tuple[str, str]:
    """Return the task and the attribute to draw; by default, the first of each."""
    if not results.cells:
        raise InputError(f"{results.folder}: no cell is finished yet; run the study first")
    for name, choices, what in ((task, results.tasks, "task"), (attribute, results.attributes, "attribute")):
        if name is not None and name not in choices:
            raise InputError(f"{results.folder}: no {what} {name!r} in the study: {nearest(name, choices)}")
    return task or results.tasks[0], attribute or results.attributes[0]


def _lines(figure: Any, lines: Lines | None) -> None:
    if lines is None:
        return
    note = {"annotation_font": {"size": 11, "color": MUTED}}
    dashed = {"line": {"color": MUTED, "width": 1.2, "dash": "dash"}}
    figure.add_vline(x=lines.chance, annotation_text=f"guessing {lines.chance:.2f}", **dashed, **note)
    figure.add_hline(
        y=lines.utility_prior,
        annotation_text=f"guessing the task {lines.utility_prior:.2f}",
        annotation_position="bottom right",
        **dashed,
        **note,
    )
    if lines.floor is not None:
        figure.add_vline(
            x=lines.floor.estimate,
            line={"color": MUTED, "width": 1.2, "dash": "dot"},
            annotation_text=f"floor {lines.floor.estimate:.2f}",
            annotation_position="bottom right",
            **note,
        )


def _hover(label: str, view: PairView, index: int, contradicted: bool) -> str:
    point, cotrained, bound = view.points[index], view.cotrained[index], view.bounds[index]
    lines = [f"<b>{_plain(label)}</b>"]
    if point is not None:
        lines += [f"leakage {point.leakage}", f"utility {point.utility}"]
    if cotrained is not None:
        lines.append(f"co-trained adversary: {cotrained}")
    if bound is not None:
        lines.append(f"CERTIFIED ≤ {bound:.4f}{', CONTRADICTED' if contradicted else ''}")
    return "<br>".join(lines)


def _plain(text: str) -> str:
    """Return text that plotly shows literally, neither as markup nor as a formula."""
    return html.escape(text, quote=False).replace("$", "&#36;")


def _bars(figures: list[Figure], colour: str) -> dict[str, Any]:
    return {
        "type": "data",
        "symmetric": False,
        "array": [figure.high - figure.estimate for figure in figures],
        "arrayminus": [figure.estimate - figure.low for figure in figures],
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
