"""Words: the answer in plain sentences, derived only from the figures.

Settings are chosen on validation figures and reported at their test figures. A comparison is stated only where its
interval allows it. "Proved" is said of certificates alone; everything else is an estimate against the attackers tried.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from fedveil.attacks.judgement import FRESH
from fedveil.core.arrays import FloatArray
from fedveil.core.figures import Estimate
from fedveil.report.certified import (
    bound_on_balanced_accuracy,
    certified_rates,
    confidence_in_words,
    contradictions,
    is_held_out,
)
from fedveil.report.learned import learned_in_words
from fedveil.report.pairs import Pair, pair_of
from fedveil.report.settings import Setting, settings_of
from fedveil.studies.frontier import Comparison, Frontier, Point
from fedveil.studies.notes import notes
from fedveil.studies.results import StudyResults
from fedveil.studies.seeds import LEAST

T = TypeVar("T")
Labels = dict[tuple[str, float | None], str]

_SEEN = {
    "outputs": "the outputs that {who} send",
    "updates": "the updates that {who} send",
    "parameters": "the parameters that {who} send",
    "statistics": "the statistics that {who} send",
}


class Sentence(NamedTuple):
    """A sentence, and what it is about: see `say`."""

    about: str
    text: str


def in_words(results: StudyResults, task: str, attribute: str) -> list[Sentence]:
    """Return the answer for one task and one attribute, a paragraph of sentences."""
    return say(results, pair_of(results, task, attribute))


def say(results: StudyResults, pair: Pair) -> list[Sentence]:
    """Return the answer that the figures of one task and one attribute give."""
    settings = settings_of(results)
    labels = {(setting.method, setting.strength): setting.label for setting in settings}
    sentences = [("partial", _partial(results, pair))]
    if pair.frontier is None:
        sentences.append(("undefended", f"No cell has figures for {pair.task} and {pair.attribute} yet."))
    else:
        sentences += [
            ("undefended", _undefended(results, pair, pair.frontier)),
            ("defence", _defence(pair, pair.frontier, labels)),
            ("seeds", _another_seed(pair, labels)),
            ("baseline", _baseline(pair, pair.frontier)),
            ("cotrained", _cotrained(pair, labels)),
            *notes(pair.rows, lambda row: labels[row.method, row.strength]).items(),
            ("contradiction", _contradiction(pair, settings)),
            ("certified", _certified(pair, pair.frontier, settings)),
            ("rate", _rate(results, settings, pair.attribute)),
            ("floor", _floor(pair, pair.frontier)),
            ("learned", learned_in_words(settings, pair.attribute)),
            ("caveat", _caveat(results, pair)),
        ]
    return [Sentence(about, text) for about, text in sentences if text]


def _partial(results: StudyResults, pair: Pair) -> str:
    planned, missing = len(results.planned), len(results.missing)
    parts = []
    if missing:
        damaged = f" ({len(results.damaged)} damaged)" if results.damaged else ""
        parts.append(f"{missing} of {planned} planned cells {_number(missing, 'is', 'are')} not finished{damaged}")
    if pair.lacking:
        parts.append(f"{len(pair.lacking)} finished {_number(len(pair.lacking), 'lacks', 'lack')} figures")
    return f"This study is partial: {' and '.join(parts)}, so what follows may change." if parts else ""


def _undefended(results: StudyResults, pair: Pair, frontier: Frontier) -> str:
    free, facts = pair.undefended, results.facts
    if free is None:
        return "No cell without a defence is finished, so it is not known how much the defences reduce leakage."
    who = f"{facts.devices} devices" if facts.devices else "the devices"
    seen = _SEEN.get(facts.view or "", "what {who} release")
    where = seen.format(who=f"{who} with {facts.source} data" if facts.source else who)
    if not free.read_beyond(frontier.chance):
        reads = (
            f"Without a defence, no attacker tried reads {pair.attribute} from {where} beyond what chance explains: "
            f"balanced accuracy {shown(free.leakage)}, guessing {frontier.chance:.2f}"
        )
    else:
        reads = (
            f"Without a defence, an attacker reads {pair.attribute} from {where} at balanced accuracy "
            f"{shown(free.leakage)}, where guessing gives {frontier.chance:.2f}"
        )
    return (
        f"{reads}; {pair.task} is predicted at accuracy {shown(free.utility)}, guessing {frontier.utility_prior:.2f}."
    )


def _defence(pair: Pair, frontier: Frontier, labels: Labels) -> str:
    """Say what the defence that leaks least while staying useful costs and gains; it is chosen on validation."""
    free = pair.undefended
    if free is None:
        return ""
    tried = [point for point in pair.defences if math.isfinite(point.validation_utility + point.validation_leakage)]
    if not tried:
        return "No defence other than dropping columns has figures here."
    if free.utility.low <= frontier.utility_prior:
        return (
            f"Since even the undefended release does not help to predict {pair.task}, utility cannot tell the defences "
            "apart."
        )
    best = pair.recommended
    if best is None:
        most = max(tried, key=lambda point: point.validation_utility)
        return (
            f"No defence keeps nine tenths of what the undefended release adds to guessing {pair.task}; with the one "
            f"that keeps most, {labels[most.method, most.strength]}, {pair.task} is predicted at "
            f"{shown(most.utility)} and {pair.attribute} is read at {shown(most.leakage)}."
        )
    fall = difference(free.leakage, free.leakage_draws, best.leakage, best.leakage_draws)
    cost = difference(free.utility, free.utility_draws, best.utility, best.utility_draws)
    who = (
        f"Of the defences that keep nine tenths of what the undefended release adds to guessing {pair.task}, "
        f"{labels[best.method, best.strength]} leaks least"
    )
    price = f"at a cost of {points(cost)} of {pair.task} accuracy"
    if fall.low > 0:
        return f"{who}: it brings leakage down to {shown(best.leakage)}, {price}."
    if fall.high < 0:
        return f"{who}, but still more than no defence: {shown(best.leakage)}, {price}."
    return f"{who}, but no reduction is shown: {pair.attribute} is still read at {shown(best.leakage)}, {price}."


def _another_seed(pair: Pair, labels: Labels) -> str:
    """Say what another seed's release would reveal, for the release without a defence and the defence named above."""
    retrained = {(row.method, row.strength): row for row in pair.rows if row.attacker == "retrained"}
    headline = [point for point in (pair.undefended, pair.recommended) if point is not None]
    rows = [retrained[point.method, point.strength] for point in headline]
    if not rows:
        return ""
    predicted = [
        f"at {shown(row.leakage.new_seed)} {_with(point, pair, labels)}"
        for point, row in zip(headline, rows, strict=True)
        if row.leakage.new_seed is not None
    ]
    if not predicted:
        seeds = max(len(row.seeds) for row in rows)
        return (
            f"What another seed's release would reveal is not predicted: that takes {LEAST} seeds, and here there "
            f"{_number(seeds, 'is', 'are')} {seeds}."
        )
    return f"Another seed's release would be read {' and '.join(predicted)} (95% prediction over seeds)."


def _with(point: Point, pair: Pair, labels: Labels) -> str:
    return "without a defence" if point is pair.undefended else f"with {labels[point.method, point.strength]}"


def _baseline(pair: Pair, frontier: Frontier) -> str:
    """Compare with dropping columns, which needs no training, at equal leakage."""
    methods = list(dict.fromkeys(point.method for point in pair.defences))
    if not methods:
        return ""
    if frontier.baseline not in frontier.methods:
        return "Dropping columns, the plainest defence, has no figures here to compare with."
    by_verdict: dict[str, list[Comparison]] = {}
    for comparison in map(frontier.against, methods):
        by_verdict.setdefault(comparison.verdict, []).append(comparison)
    beats, loses = by_verdict.get("beats", []), by_verdict.get("does not beat", [])
    parts = ["Nothing tried here is shown to beat simply dropping columns"]
    if beats:
        better = listed(beats, lambda comparison: f"{comparison.method} (by {_by(comparison)})")
        keep = _number(len(beats), "keeps", "keep")
        parts = [f"At the same leakage, {better} {keep} more {pair.task} accuracy than dropping columns"]
    if loses:
        worse = listed(loses, lambda comparison: f"{comparison.method} (by {_by(comparison, -1)})")
        parts.append(f"worse at the same leakage: {worse}")
    for verdict in ("undecided", "not comparable"):
        if verdict in by_verdict:
            parts.append(f"{verdict}: {listed(by_verdict[verdict], lambda comparison: comparison.method)}")
    return "; ".join(parts) + "."


def _by(comparison: Comparison, sign: int = 1) -> str:
    if comparison.difference is None:
        return "an unknown amount"
    return points(comparison.difference if sign > 0 else negated(comparison.difference))


def _cotrained(pair: Pair, labels: Labels) -> str:
    """Compare the co-trained adversary with an attacker trained afterwards, in the setting where they differ most."""
    read = {(row.method, row.strength, row.attacker): row.leakage.balanced_accuracy for row in pair.rows}
    both = [
        (labels[method, strength], cotrained, read[method, strength, "retrained"])
        for (method, strength, attacker), cotrained in read.items()
        if attacker == "cotrained" and math.isfinite(cotrained.estimate)
    ]
    if not both:
        return ""
    label, cotrained, retrained = max(both, key=lambda case: case[2].estimate - case[1].estimate)
    text = (
        f"The adversary trained along with {label} reads {shown(cotrained)}; an attacker trained afterwards on the "
        f"same releases reads {shown(retrained)}"
    )
    if retrained.low > cotrained.high:
        return f"{text}: the defence's own adversary is no evidence of privacy."
    return f"{text}, which here is no clear difference."


def _contradiction(pair: Pair, settings: Sequence[Setting]) -> str:
    """Say where an attacker reads more than a certificate allows; only the clearest case is described."""
    cases = [(setting, case) for setting in settings for case in contradictions(setting, pair.attribute)]
    if not cases:
        return ""
    setting, case = max(cases, key=lambda pair: pair[1].read.low - pair[1].bound)
    more = len({setting.label for setting, _ in cases}) - 1
    others = f" ({more} more {_number(more, 'setting', 'settings')} likewise)" if more else ""
    return (
        f"CONTRADICTION: with {setting.label}, seed {case.seed}, {case.attacker} reads {pair.attribute} at "
        f"{case.quantity} {case.read}, above the {case.bound:.3f} that the certificate allows{others}; the "
        "certificate, one of its assumptions, or the run is wrong: do not rely on any of them."
    )


def _certified(pair: Pair, frontier: Frontier, settings: Sequence[Setting]) -> str:
    """Say what is proved, or that nothing is."""
    broken = [setting for setting in settings if contradictions(setting, pair.attribute)]
    proved = [
        (limit, setting)
        for setting in settings
        if setting not in broken and (limit := bound_on_balanced_accuracy(setting, pair.attribute)) is not None
    ]
    if not proved:
        if certified_rates(settings, pair.attribute):
            return f"No bound on the balanced accuracy of reading {pair.attribute} is proved."
        why = "every certificate is contradicted" if broken else "no setting has a certificate"
        return f"Nothing here is proved about {pair.attribute}: {why}."
    limit, setting = min(proved, key=lambda case: case[0])
    methods = list(dict.fromkeys(setting.method for _, setting in proved))
    named = listed(methods, str)
    if limit >= 0.995:
        return f"There are certificates for {named}, but they are too loose to exclude anything."
    where = f"with {setting.label}, " if len(methods) > 1 else f"at {setting.detail}, " if setting.detail else ""
    text = (
        f"Only {named} {_number(len(methods), 'is', 'are')} proved: {where}no attacker can exceed balanced "
        f"accuracy {bound(limit)} while the certificate's assumptions hold"
    )
    if is_held_out(setting, pair.attribute, "balanced accuracy"):
        text += f", {confidence_in_words(settings, pair.attribute)}"
    if pair.undefended is not None and limit >= pair.undefended.leakage.estimate:
        text += ", which is more than attackers read without a defence"
    for point in frontier.points:
        if (point.method, point.strength) == (setting.method, setting.strength):
            lost = ", no better than guessing" if point.utility.low <= frontier.utility_prior else ""
            text += f"; {pair.task} is then predicted at {shown(point.utility)}{lost}"
    return text + "."


def _rate(results: StudyResults, settings: Sequence[Setting], attribute: str) -> str:
    """Say how many bits are certified for compressed representations, and why Attri-Fed's Corollary 1 is no guarantee.

    Empty for a study that neither plays Attri-Fed nor has a rate certificate.
    """
    rates = certified_rates(settings, attribute)
    if not rates and not any(method.game == "attri-fed" for method in results.facts.methods):
        return ""
    nothing = (
        "Attri-Fed's Corollary 1 (ε = ln 1/T, T the least prior) guarantees nothing, since no mechanism can exceed its "
        "bound, not even one without any defence"
    )
    if not rates:
        return f"{nothing}."
    rate = min(rates, key=lambda rate: rate.bits)
    dealt = (
        " (if people are dealt to senders at random, so that the sender alone reveals nothing)" if rate.dealt else ""
    )
    excludes = "does not even exclude an attacker who is always right"
    if rate.accuracy < 0.995:
        excludes = f"only excludes accuracies above {bound(rate.accuracy)}"
    return (
        f"{nothing}; what is certified is that {rate.setting.label} reveals at most {bound(rate.bits)} bits about "
        f"{attribute}, even to a server that knows the sender{dealt}, {confidence_in_words(settings, attribute)}, "
        f"which by Fano's inequality {excludes}: bits say little about accuracy."
    )


def _floor(pair: Pair, frontier: Frontier) -> str:
    if frontier.floor is None or not math.isfinite(frontier.floor.estimate):
        return ""
    if frontier.floor.low <= frontier.chance:
        return (
            f"From {pair.task} alone, {pair.attribute} is read at {shown(frontier.floor)}: no better than chance "
            f"explains, so a release that predicts {pair.task} perfectly need not leak."
        )
    return (
        f"From {pair.task} alone, {pair.attribute} is read at {shown(frontier.floor)}: "
        f"a release that predicts {pair.task} perfectly leaks at least that."
    )


def _caveat(results: StudyResults, pair: Pair) -> str:
    judged = [cell.result.leakage[pair.attribute] for cell in results.cells if pair.attribute in cell.result.leakage]
    names = list(dict.fromkeys(attacker.name for judgement in judged for attacker in judgement.attackers))
    kinds = dict.fromkeys(name.removesuffix(FRESH) for name in names)
    fresh = "; also taught by fresh people" if len(kinds) < len(names) else ""
    tried = f" ({', '.join(kinds)}{fresh})" if names else ""
    return (
        f"Figures not marked CERTIFIED are estimates against the attackers tried{tried}; "
        "another attacker may read more. Brackets are 95% intervals."
    )


def shown(value: Estimate) -> str:
    """Show an accuracy with its interval, two digits.

    >>> shown(Estimate(0.8012, 0.79, 0.8149))
    '0.80 [0.79, 0.81]'
    """
    if math.isnan(value.low) or math.isnan(value.high):
        return f"{value.estimate:.2f}"
    return f"{value.estimate:.2f} [{value.low:.2f}, {value.high:.2f}]"


def points(value: Estimate) -> str:
    """Show a difference of accuracies in points of a hundred.

    >>> points(Estimate(0.0123, 0.001, 0.02))
    '1.2 [0.1, 2.0] points'
    """
    if math.isnan(value.low) or math.isnan(value.high):
        return f"{_tenths(value.estimate)} points"
    return f"{_tenths(value.estimate)} [{_tenths(value.low)}, {_tenths(value.high)}] points"


def bound(value: float) -> str:
    """Show an upper bound with two digits, rounded to the safe side.

    >>> bound(0.5988), bound(0.5901), bound(0.59)
    ('0.60', '0.60', '0.59')
    """
    return f"{math.ceil(round(value * 100, 6)) / 100:.2f}"


def negated(value: Estimate) -> Estimate:
    """Return the difference with its sign reversed."""
    return Estimate(-value.estimate, -value.high, -value.low)


def difference(first: Estimate, first_draws: FloatArray, second: Estimate, second_draws: FloatArray) -> Estimate:
    """Return first minus second, with the interval of the paired draws' differences."""
    draws = np.asarray(first_draws) - np.asarray(second_draws)
    draws = draws[np.isfinite(draws)]
    low, high = np.quantile(draws, [0.025, 0.975]) if len(draws) else (math.nan, math.nan)
    return Estimate(first.estimate - second.estimate, float(low), float(high))


def listed(items: Sequence[T], name: Callable[[T], str], most: int = 4) -> str:
    """Name the first few items, and count the others.

    >>> listed(["a", "b", "c"], str.upper), listed("abcdef", str)
    ('A, B and C', 'a, b, c, d and 2 more')
    """
    words = [name(item) for item in items[:most]] + ([f"{len(items) - most} more"] if len(items) > most else [])
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _tenths(value: float) -> str:
    tenths = f"{100 * value:.1f}"
    return "0.0" if tenths == "-0.0" else tenths.replace("-", "−")


def _number(count: int, singular: str, plural: str) -> str:
    return singular if count == 1 else plural
