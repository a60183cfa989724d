"""What stands beside a curious classifier's figures: the paper's, and how far it went towards a dedicated one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedveil_papers.shown import PaperFigures

FIGURES = ("honesty", "curiosity", "entropy")


def printed(paper: PaperFigures, row: Mapping[str, Any]) -> dict[str, str]:
    """Return what the paper prints for a row, word for word.

    An entry names its table and setting, where it stands (`at`), and its figures; one with `over` holds a figure for
    each of its `values`.
    """
    for one in paper:
        at = {**one.get("at", {}), **({"secret": one["secret"]} if "secret" in one else {})}
        here = {**row["point"], "secret": row["secret"]}
        if (one.get("table"), one.get("setting")) != (row["table"], row["setting"]):
            continue
        if any(here.get(name) != value for name, value in at.items()):
            continue
        if "over" not in one:
            return {name: str(one[name]) for name in FIGURES if name in one}
        if here.get(one["over"]) in one["values"]:
            place = one["values"].index(here[one["over"]])
            return {name: str(one[name][place]) for name in FIGURES if name in one}
    return {}


def add_ways(rows: Sequence[dict[str, Any]]) -> None:
    """Say of each curious row how far its curiosity went from a standard classifier's to a dedicated one's.

    By the maker's G it is accuracy, by retrained attackers balanced accuracy; the standard row is that of the same
    table and place, with the same kind of output where there is one.
    """
    for row in rows:
        if row["dedicated"] or not row["curious"]:
            continue
        same = [one for one in rows if not one["curious"] and not one["dedicated"] and _place(one) == _place(row)]
        same.sort(key=lambda one: (one["output"] != row["output"], one["point"] != row["point"]))
        best = [one for one in rows if one["dedicated"] and one["secret"] == row["secret"] and _fits(one, row)]
        if not same or not best:
            continue
        for name in ("own", "balanced"):
            low, high = same[0][name]["estimate"], best[0][name]["estimate"]
            # Where the dedicated classifier hardly knows more, a share of the way says nothing.
            row[f"way_{name}"] = (row[name]["estimate"] - low) / (high - low) if high - low > 0.01 else None


def _place(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return row["source"], row["options"], row["target"], row["secret"], row["S"]


def _fits(dedicated: Mapping[str, Any], row: Mapping[str, Any]) -> bool:
    """Tell whether a dedicated classifier tells the same values of the secret apart."""
    return bool(dedicated["source"] == row["source"] and dedicated["S"] == row["S"])
