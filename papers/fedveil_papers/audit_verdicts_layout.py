"""How verdicts on a zoo of classifiers are laid out: counts, tables, notes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fedveil_papers.shown import with_interval

if TYPE_CHECKING:
    from rich.table import Table

Member = dict[str, Any]

LABELS = ("standard", "curious", "failed attempt")
VERDICTS = ("standard", "correlated", "undecided", "curious")
HALVES = ("calibration", "report")


def counts(members: Sequence[Member]) -> list[dict[str, Any]]:
    """Count verdicts at the main number of rows, by half and by what the classifiers are."""
    found = []
    for half in (*HALVES, "all"):
        for label in LABELS:
            own = [one for one in members if one["label"] == label and half in ("all", one["half"])]
            said = [one["audits"][0]["verdict"] for one in own]
            row = {verdict: said.count(verdict) for verdict in VERDICTS}
            found.append({"half": half, "label": label, "members": len(own), **row})
    return found


def by_rows(members: Sequence[Member]) -> list[dict[str, Any]]:
    """Count verdicts by number of rows, of those classifiers that were audited with several."""
    asked = [one for one in members if len(one["audits"]) > 1]
    sizes = sorted({audit["rows"] for one in asked for audit in one["audits"]})
    found = []
    for rows in sizes:
        for label in LABELS:
            said = [a["verdict"] for one in asked if one["label"] == label for a in one["audits"] if a["rows"] == rows]
            row = {verdict: said.count(verdict) for verdict in VERDICTS}
            found.append({"rows": rows, "label": label, "members": len(said), **row})
    return found


def tables(found: dict[str, Any]) -> list[Table]:
    """Counts, verdicts by rows, the curious ones by β_x, every classifier."""
    return [_counts(found), *([_rows(found)] if found["by_rows"] else []), _compressed(found), _members(found)]


def _headed(title: str, headings: Sequence[str], texts: int) -> Table:
    from rich.table import Table

    table = Table(title=title)
    for place, heading in enumerate(headings):
        table.add_column(heading, justify="left" if place < texts else "right")
    return table


def _counts(found: dict[str, Any]) -> Table:
    title = f"Verdicts at {found['rows']:,} rows ({found['panel']} panel)"
    table = _headed(title, ("half", "made to be", "classifiers", *(f'"{name}"' for name in VERDICTS)), 2)
    for row in found["counts"]:
        if row["members"]:
            said = (str(row[verdict]) for verdict in VERDICTS)
            table.add_row(row["half"], row["label"], str(row["members"]), *said)
    return table


def _rows(found: dict[str, Any]) -> Table:
    table = _headed("Verdicts by rows", ("made to be", "rows", "classifiers", *(f'"{name}"' for name in VERDICTS)), 1)
    for label in LABELS:
        for row in found["by_rows"]:
            if row["label"] == label and row["members"]:
                said = (str(row[verdict]) for verdict in VERDICTS)
                table.add_row(label, f"{row['rows']:,}", str(row["members"]), *said)
    return table


def _compressed(found: dict[str, Any]) -> Table:
    """Curious classifiers by β_x: the attack's own success, and whether it was caught."""
    table = _headed(
        "Curious classifiers by β_x", ("β_x", "made", "failed attempts", "caught", "undecided", "missed", "share"), 0
    )
    for beta in sorted({one["beta_x"] for one in found["members"] if one["curious"]}):
        own = [one for one in found["members"] if one["curious"] and one["beta_x"] == beta]
        worked = [one["audits"][0] for one in own if one["label"] == "curious"]
        said = [audit["verdict"] for audit in worked]
        shares = sorted(audit["share"]["estimate"] for audit in worked)
        missed = len(said) - said.count("curious") - said.count("undecided")
        span = f"{shares[0]:.2f} – {shares[-1]:.2f}" if shares else "—"
        numbers = (len(own), len(own) - len(worked), said.count("curious"), said.count("undecided"), missed)
        table.add_row(f"{beta:g}", *map(str, numbers), span)
    table.caption = "Caught, undecided and missed are of those whose maker can read s. Share: of H(s | y, ŷ)."
    return table


def _members(found: dict[str, Any]) -> Table:
    table = _headed(
        "All classifiers",
        (
            "case",
            "classifier",
            "half",
            "made to be",
            "verdict",
            "honesty",
            "maker reads",
            "gain",
            "excess share",
            "rows",
        ),
        5,
    )
    for one in sorted(found["members"], key=by_excess):
        audit = one["audits"][0]
        table.add_row(
            one["case"],
            one["recipe"],
            one["half"],
            one["label"],
            audit["verdict"],
            f"{one['honesty']['estimate']:.3f}",
            "—" if one["own"] is None else f"{one['own']['test']:.3f} ({one['prior']:.3f})",
            f"{one['gain']:+.3f}" if "gain" in one else "",
            with_interval(audit["share"]),
            f"{audit['rows']:,}",
        )
    table.caption = (
        "Maker reads: accuracy of its own attack on test people (prior). Gain: on validation people, over the case's "
        "standard network. Excess share: of the bits that (y, ŷ) leave open, as the verdict counts them."
    )
    return table


def by_excess(one: Member) -> tuple[int, float]:
    """Order classifiers by what they are, then the largest excess first."""
    return LABELS.index(one["label"]), -one["audits"][0]["share"]["estimate"]


def notes(found: dict[str, Any]) -> list[str]:
    """Say how many were told rightly, which were not, and what the limits rest on."""
    total = {row["label"]: row for row in found["counts"] if row["half"] == "all"}
    standard, curious = total["standard"], total["curious"]
    lines = [
        f"Standard classifiers called curious: {standard['curious']} of {standard['members']}; left undecided: "
        f"{standard['undecided']}. Curious ones caught: {curious['curious']} of {curious['members']}; left undecided: "
        f"{curious['undecided']}.",
        f"Limits: {found['limits']['provenance']}.",
        f"A failed attempt is a curious classifier whose maker gains less than {100 * found['least_gain']:g} points of "
        "accuracy over the case's standard network, on validation people; the verdict has no part in that.",
    ]
    wrong = [one for one in found["members"] if _is_wrong(one)]
    for one in wrong:
        audit = one["audits"][0]
        lines.append(
            f"Not told rightly: {one['case']}, {one['recipe']}, run {one['seed']} ({one['label']}): "
            f"{audit['verdict']}; share {with_interval(audit['share'])}."
        )
    lines.append(_provenance(found))
    return lines + [str(one["note"]) for one in found["paper"] if "note" in one]


def _is_wrong(one: Member) -> bool:
    verdict = one["audits"][0]["verdict"]
    if one["label"] == "curious":
        return bool(verdict != "curious")
    return bool(one["label"] == "standard" and verdict in ("curious", "undecided"))


def _provenance(found: dict[str, Any]) -> str:
    """Say where the calibration half puts the limits, and where they are."""
    ends, used = found["midway"], found["limits"]
    if ends["share"] is None:
        return "The calibration half lacks standard or curious classifiers; no limit follows from it."
    said = (
        f"Calibration half: the highest upper end of a standard one is {ends['standard']:.3f}, the lowest lower end "
        f"of a curious one {ends['curious']:.3f}, between them {ends['share']:.3f}; the limit is "
        f"{used['excess_share']:g}."
    )
    if ends["ruled_out"] is not None:
        said += (
            f" Where values of a correlated y can be ruled out: {ends['ruled_out_standard']:.2f} and "
            f"{ends['ruled_out_curious']:.2f} times I(s; y)/H(s) beyond it, between them {ends['ruled_out']:.2f}; used "
            f"are {used['ruled_out']:g}."
        )
    return said
