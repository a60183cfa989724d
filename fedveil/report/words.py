"""Words: the answer in plain sentences, made from the figures and from nothing else.

Settings are chosen on validation figures and told at their test figures. A comparison is stated only where its interval
allows it. "Proved" is said of certificates alone; everything else is an estimate against the attackers tried.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from fedveil.report.chosen import defences, least_leaking, undefended_point
from fedveil.report.contradictions import contradictions
from fedveil.report.figures import inside
from fedveil.report.phrases import bound, difference, estimate_of, listed, negated, points, shown
from fedveil.report.rate_words import certified_rates, rate_sentence
from fedveil.report.settings import Setting, bound_on_balanced_accuracy, settings_of
from fedveil.report.sound import Pair, pair_of
from fedveil.studies.frontier import Comparison, Frontier, Point
from fedveil.studies.notes import notes
from fedveil.studies.results import StudyResults

_SEEN = {
    "outputs": "the outputs that {who} send",
    "updates": "the updates that {who} send",
    "parameters": "the parameters that {who} send",
    "statistics": "the statistics that {who} send",
}


class Sentence(NamedTuple):
    """A sentence and what it is about: see `say`."""

    about: str
    text: str


def in_words(results: StudyResults, task: str, attribute: str) -> list[Sentence]:
    """Return the answer for one task and one attribute, a paragraph of sentences."""
    return say(results, pair_of(results, task, attribute))


def say(results: StudyResults, pair: Pair) -> list[Sentence]:
    """Return the answer that a pair's sound cells give."""
    settings = settings_of(results)
    labels = {(setting.method, setting.strength): setting.label for setting in settings}
    said = [("partial", _partial(results, pair))]
    if pair.frontier is None:
        said.append(("undefended", f"No cell has figures for {pair.task} and {pair.attribute} yet."))
    else:
        free = undefended_point(results, pair)
        said += [
            ("undefended", _undefended(results, pair, pair.frontier, free)),
            ("defence", _defence(pair, pair.frontier, free, labels)),
            ("baseline", _baseline(pair, pair.frontier, free)),
            ("cotrained", _cotrained(pair, labels)),
            *notes(pair.rows, lambda row: labels[row["method"], row["strength"]]).items(),
            ("contradiction", _contradiction(pair, settings)),
            ("certified", _certified(pair, pair.frontier, free, settings)),
            ("rate", rate_sentence(results, settings, pair.attribute)),
            ("floor", _floor(pair, pair.frontier)),
            ("caveat", _caveat(results, pair)),
        ]
    return [Sentence(about, text) for about, text in said if text]


def _partial(results: StudyResults, pair: Pair) -> str:
    planned, missing = len(results.planned), len(results.missing)
    parts = []
    if missing:
        damaged = f" ({len(results.damaged)} damaged)" if results.damaged else ""
        parts.append(f"{missing} of {planned} planned cells {_are(missing)} not finished{damaged}")
    if pair.lacking:
        parts.append(f"{len(pair.lacking)} finished {_are(len(pair.lacking), 'lacks', 'lack')} figures")
    return f"This study is partial: {' and '.join(parts)}, so what follows may change." if parts else ""


def _undefended(results: StudyResults, pair: Pair, frontier: Frontier, free: Point | None) -> str:
    if free is None:
        return "No cell without a defence is finished, so what the defences take away cannot be said."
    devices, source = inside(results.study, "federation", "devices"), inside(results.study, "data", "source")
    who = f"{devices} devices" if devices else "the devices"
    seen = _SEEN.get(str(inside(results.study, "attacks", "view")), "what {who} release")
    where = seen.format(who=f"{who} with {source} data" if source else who)
    if free.leakage.low <= frontier.chance:
        reads = (
            f"Without a defence, no attacker tried reads {pair.attribute} from {where} beyond what chance explains: "
        )
        reads += f"balanced accuracy {shown(free.leakage)}, guessing {frontier.chance:.2f}"
    else:
        reads = f"Without a defence, an attacker reads {pair.attribute} from {where} at balanced accuracy "
        reads += f"{shown(free.leakage)}, where guessing gives {frontier.chance:.2f}"
    return (
        f"{reads}; {pair.task} is predicted at accuracy {shown(free.utility)}, guessing {frontier.utility_prior:.2f}."
    )


def _defence(pair: Pair, frontier: Frontier, free: Point | None, labels: dict[tuple[str, float | None], str]) -> str:
    """Say what the least leaking defence that stays useful costs and gains; it is chosen on validation."""
    if free is None:
        return ""
    tried = [p for p in defences(frontier, free) if math.isfinite(p.validation_utility + p.validation_leakage)]
    if not tried:
        return "No defence other than dropping columns has figures here."
    if free.utility.low <= frontier.utility_prior:
        return f"As even that release does not help to predict {pair.task}, utility cannot tell the defences apart."
    best = least_leaking(frontier, free)
    if best is None:
        most = max(tried, key=lambda p: p.validation_utility)
        return (
            f"No defence keeps nine tenths of what that adds to guessing {pair.task}; the one that keeps most, "
            f"{labels[most.method, most.strength]}, predicts it at {shown(most.utility)} and lets {pair.attribute} "
            f"be read at {shown(most.leakage)}."
        )
    fall = difference(free.leakage, free.leakage_draws, best.leakage, best.leakage_draws)
    cost = difference(free.utility, free.utility_draws, best.utility, best.utility_draws)
    who = f"Of the defences that keep nine tenths of what that adds to guessing {pair.task}, "
    who += f"{labels[best.method, best.strength]} leaks least"
    price = f"at a cost of {points(cost)} of {pair.task} accuracy"
    if fall.low > 0:
        return f"{who}: it brings leakage down to {shown(best.leakage)}, {price}."
    if fall.high < 0:
        return f"{who}, and yet more than no defence: {shown(best.leakage)}, {price}."
    return f"{who}, and no fall can be shown: {pair.attribute} is still read at {shown(best.leakage)}, {price}."


def _baseline(pair: Pair, frontier: Frontier, free: Point | None) -> str:
    """Compare with dropping columns, which needs no training at all, where both leak alike."""
    methods = list(dict.fromkeys(point.method for point in defences(frontier, free)))
    if not methods:
        return ""
    if frontier.baseline not in frontier.methods:
        return "Dropping columns, the plainest defence, has no figures here to compare with."
    found: dict[str, list[Comparison]] = {}
    for comparison in map(frontier.against, methods):
        found.setdefault(comparison.verdict, []).append(comparison)
    beats, loses = found.get("beats", []), found.get("does not beat", [])
    parts = ["Nothing tried here is shown to beat simply dropping columns"]
    if beats:
        told = listed(beats, lambda one: f"{one.method} (by {_by(one)})")
        keep = _are(len(beats), "keeps", "keep")
        parts = [f"At the same leakage, {told} {keep} more {pair.task} accuracy than dropping columns"]
    if loses:
        parts.append("worse at the same leakage: " + listed(loses, lambda one: f"{one.method} (by {_by(one, -1)})"))
    for verdict in ("undecided", "not comparable"):
        if verdict in found:
            parts.append(f"{verdict}: {listed(found[verdict], lambda one: one.method)}")
    return "; ".join(parts) + "."


def _by(one: Comparison, sign: int = 1) -> str:
    if one.difference is None:
        return "an unknown amount"
    return points(one.difference if sign > 0 else negated(one.difference))


def _cotrained(pair: Pair, labels: dict[tuple[str, float | None], str]) -> str:
    """Set the adversary that was trained along beside one that was trained afterwards, where they differ most."""
    read = {
        (row["method"], row["strength"], row["attacker"]): estimate_of(row["leakage"]["balanced_accuracy"])
        for row in pair.rows
    }
    both = [
        (method, strength, along, after)
        for (method, strength, attacker), along in read.items()
        for after in [read.get((method, strength, "retrained"))]
        if attacker == "cotrained" and along is not None and after is not None
    ]
    if not both:
        return ""
    method, strength, along, after = max(both, key=lambda one: one[3].estimate - one[2].estimate)
    text = f"The adversary trained along with {labels[method, strength]} reads {shown(along)}; an attacker trained "
    text += f"afterwards on the same releases reads {shown(after)}"
    if after.low > along.high:
        return f"{text}: the defence's own adversary is no evidence of privacy."
    return f"{text}, which here is no clear difference."


def _contradiction(pair: Pair, settings: list[Setting]) -> str:
    """Say aloud where an attacker reads more than a certificate allows, the clearest case first."""
    found = [(setting, one) for setting in settings for one in contradictions(setting, pair.attribute)]
    if not found:
        return ""
    setting, one = max(found, key=lambda case: case[1].read[1] - case[1].bound)
    more = len({case.label for case, _ in found}) - 1
    others = f" ({more} more {_are(more, 'setting', 'settings')} likewise)" if more else ""
    low, high = one.read[1:]
    return (
        f"CONTRADICTION: with {setting.label}, seed {one.seed}, {one.attacker} reads {pair.attribute} at "
        f"{one.quantity} {one.read[0]:.3f} [{low:.3f}, {high:.3f}], above the {one.bound:.3f} that the certificate "
        f"allows{others}; the certificate, what it assumes, or the run is broken: rely on neither."
    )


def _certified(pair: Pair, frontier: Frontier, free: Point | None, settings: list[Setting]) -> str:
    """Say what is proved, or that nothing is."""
    proved = [
        (limit, setting)
        for setting in settings
        for limit in [bound_on_balanced_accuracy(setting, pair.attribute)]
        if limit is not None and not contradictions(setting, pair.attribute)
    ]
    if not proved:
        if certified_rates(settings, pair.attribute):
            return f"No bound on the balanced accuracy of reading {pair.attribute} is proved."
        broken = any(contradictions(setting, pair.attribute) for setting in settings)
        why = "every certificate is contradicted" if broken else "no setting has a certificate"
        return f"Nothing here is proved about {pair.attribute}: {why}."
    reached = {(point.method, point.strength): point for point in frontier.points}
    limit, setting = min(proved, key=lambda one: one[0])
    methods = list(dict.fromkeys(one.method for _, one in proved))
    named = listed(methods, str)
    if limit >= 0.995:
        return f"Certificates are there for {named}, but they are too loose to exclude anything."
    where = f"with {setting.label}, " if len(methods) > 1 else f"at {setting.detail}, " if setting.detail else ""
    text = f"Only {named} {_are(len(methods))} proved: {where}no attacker whatever can exceed balanced "
    text += f"accuracy {bound(limit)} while the certificate's assumptions hold"
    if free is not None and limit >= free.leakage.estimate:
        text += ", which is more than attackers read without a defence"
    point = reached.get((setting.method, setting.strength))
    if point is not None:
        lost = point.utility.low <= frontier.utility_prior
        text += (
            f"; {pair.task} is then predicted at {shown(point.utility)}{', no better than guessing' if lost else ''}"
        )
    return text + "."


def _floor(pair: Pair, frontier: Frontier) -> str:
    if frontier.floor is None or not math.isfinite(frontier.floor.estimate):
        return ""
    if frontier.floor.low <= frontier.chance:
        return (
            f"Knowing {pair.task} alone, one reads {pair.attribute} at {shown(frontier.floor)}: no better than chance "
            "explains, so serving it perfectly need not leak."
        )
    return (
        f"Knowing {pair.task} alone, one reads {pair.attribute} at {shown(frontier.floor)}: "
        "a release that serves it perfectly leaks at least that."
    )


def _caveat(results: StudyResults, pair: Pair) -> str:
    names: dict[str, None] = {}
    for cell in results.cells:
        for attacker in inside(cell.result, "leakage", pair.attribute, "attackers") or []:
            names[str(inside(attacker, "name"))] = None
    tried = f" ({', '.join(names)})" if names else ""
    return (
        f"Figures not marked CERTIFIED are estimates against the attackers tried{tried}; "
        "another attacker may read more. Brackets are 95% intervals."
    )


def _are(count: int, one: str = "is", more: str = "are") -> str:
    return one if count == 1 else more
