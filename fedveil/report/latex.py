"""The table of all settings in LaTeX (booktabs). Whatever stands in a name is printed, never a command."""

from __future__ import annotations

import math
from typing import Any

from fedveil.report.figures import Figure

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


def latex_table(data: dict[str, Any]) -> str:
    """Return a table for each task and attribute: estimates with intervals, certified bounds in a column apart."""
    tables = [
        _table(data, t, task, a, attribute)
        for t, task in enumerate(data["tasks"])
        for a, attribute in enumerate(data["attributes"])
    ]
    return "% Needs \\usepackage{booktabs}.\n" + "\n".join(tables)


def latex_text(text: str) -> str:
    r"""Return text that LaTeX prints as it stands.

    >>> latex_text("50% of_x")
    '50\\% of\\_x'
    """
    return "".join(_ESCAPES.get(letter, letter if letter.isprintable() else " ") for letter in text)


def _table(data: dict[str, Any], t: int, task: str, a: int, attribute: str) -> str:
    view = data["views"][t][a]
    rows = []
    for i, setting in enumerate(data["settings"]):
        point, limit = view["points"][i], view["bounds"][i]
        bound = "--" if limit is None else f"$\\leq {math.ceil(round(limit * 1e3, 6)) / 1e3:.3f}$"
        bound += " (contradicted)" if data["contradictions"][a][i] else ""
        along = _told(view["cotrained"][i]) if view["cotrained"][i] else "--"
        figures = [_told(point["leakage"]), along, _told(point["utility"])] if point else ["missing", along, "missing"]
        rows.append(" & ".join([latex_text(setting["label"]), *figures, bound]) + r" \\")
    partial = "" if data["complete"] else f" Partial: {data['finished']} of {data['planned']} cells."
    caption = (
        f"{latex_text(data['name'])}: leakage of {latex_text(attribute)} (balanced accuracy of the strongest attacker "
        f"tried, an estimate), what the co-trained adversary says, utility (accuracy of {latex_text(task)}), with "
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


def _told(figure: Figure) -> str:
    return f"{figure[0]:.3f} [{figure[1]:.3f}, {figure[2]:.3f}]"
