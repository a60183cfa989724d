"""Contradictions: an attacker who reads more than a certificate allows. One of the two is wrong, and both are shown.

A certificate binds every attacker. Where the lower end of an estimate exceeds a certified upper bound on the same
quantity in the same cell, the certificate, its assumptions or the run is broken (or, once in forty estimates of an
attacker who just reaches the bound, chance spoke). Such a bound is never told as proved.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from fedveil.report.figures import Figure, figure, inside, known_certificates, number
from fedveil.report.settings import Setting

MEASURES = {
    "accuracy": "accuracy",
    "advantage": "advantage",
    "balanced accuracy": "balanced_accuracy",
    "information (bits)": "mutual_information_bits",
    "accuracy, sender unknown": "accuracy",
    "information (bits), sender unknown": "mutual_information_bits",
}
"""The quantities of certificates that attackers are measured by, and the measures' names; a study's attackers do not
know the sender."""


class Contradiction(NamedTuple):
    """What was read, by whom, in which seed's cell, against which bound."""

    quantity: str
    bound: float
    attacker: str
    seed: int
    read: Figure


def contradictions(setting: Setting, attribute: str) -> list[Contradiction]:
    """Return for each certified quantity the attacker who exceeds its bound most, over all cells and attackers."""
    worst: dict[str, Contradiction] = {}
    for cell in setting.cells:
        for proved in known_certificates(cell.result, attribute):
            measure, limit = MEASURES.get(str(proved["quantity"])), number(proved["bound"])
            if measure is None or limit is None or proved["direction"] != "upper":
                continue
            for attacker in _attackers(cell.result, attribute):
                read = figure(attacker.get(measure))
                if read is None or number(inside(attacker, measure, "low")) is None or read[1] <= limit:
                    continue
                found = Contradiction(str(proved["quantity"]), limit, str(attacker.get("name")), cell.seed, read)
                before = worst.get(found.quantity)
                if before is None or read[1] - limit > before.read[1] - before.bound:
                    worst[found.quantity] = found
    return list(worst.values())


def _attackers(result: Mapping[str, Any], attribute: str) -> Iterator[Mapping[str, Any]]:
    tried = inside(result, "leakage", attribute, "attackers")
    chosen, along = inside(result, "leakage", attribute, "worst"), inside(result, "cotrained", attribute)
    undone = [inside(result, "decensoring", attribute, part) for part in ("attack", "control")]
    for one in [*(tried if isinstance(tried, list) else []), chosen, along, *undone]:
        if isinstance(one, Mapping):
            yield one
