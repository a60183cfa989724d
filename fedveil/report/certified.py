"""What is certified about a setting, and what contradicts it.

A setting's certificate must hold in each of its cells: for a quantity that every finished cell bounds, the loosest of
the cells' bounds counts. A certificate holds against every attacker. If the lower end of an estimate exceeds a
certified upper bound on the same quantity in the same cell, the certificate, its assumptions or the run is wrong (or it
is chance, as in one of forty estimates of an attacker who just reaches the bound). Such a bound is never called proved,
and both figures are shown.

Settings hold certificates that have paid for the choice of the smallest (`fedveil.studies.choosing`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from fedveil.core.figures import Estimate
from fedveil.report.settings import Setting
from fedveil.studies.choosing import together
from fedveil.studies.model import StatedCertificate, weakest_certificates
from fedveil.studies.results import CellResult

_MEASURES = {
    "accuracy": "accuracy",
    "advantage": "advantage",
    "balanced accuracy": "balanced_accuracy",
    "information (bits)": "mutual_information_bits",
    "accuracy, sender unknown": "accuracy",
    "information (bits), sender unknown": "mutual_information_bits",
}
"""The quantities of certificates that attackers are measured by, with the measures' names; a study's attackers do not
know the sender."""

_BITS, _ACCURACY = "information (bits)", "accuracy"
"""What a rate certificate bounds for every observer, including one who knows the sender."""

_ASKED = 0.95
"""What the certificates of a study promise together."""

_DEALT = "people dealt to senders at random"
"""The assumption of a rate certificate that the sender says nothing about a person."""


class Contradiction(NamedTuple):
    """An estimate that exceeds a certified bound: which bound, which attacker, in the cell of which seed."""

    quantity: str
    bound: float
    attacker: str
    seed: int
    read: Estimate


class CertifiedRate(NamedTuple):
    """What the length of a setting's code certifies: bits about an attribute, and by Fano's inequality an accuracy.

    `dealt` says whether this assumes that people are dealt to senders at random.
    """

    setting: Setting
    bits: float
    accuracy: float
    dealt: bool


def certificates_of(setting: Setting, attribute: str) -> list[StatedCertificate]:
    """Return what holds in every finished cell: for each quantity that all of them bound, the loosest bound."""
    return weakest_certificates([cell.result.binding_certificates(attribute) for cell in setting.cells])


def bound_on_balanced_accuracy(setting: Setting, attribute: str) -> float | None:
    """Return what no attacker's balanced accuracy can exceed, rounded up (the safe side) to four digits."""
    for certificate in certificates_of(setting, attribute):
        if (certificate.quantity, certificate.direction) == ("balanced accuracy", "upper"):
            return math.ceil(round(certificate.bound * 1e4, 6)) / 1e4
    return None


def is_held_out(setting: Setting, attribute: str, quantity: str) -> bool:
    """Return whether what is certified about a quantity holds with a probability over people only."""
    return any(stated.held_out for stated in certificates_of(setting, attribute) if stated.quantity == quantity)


def confidence_in_words(settings: Sequence[Setting], attribute: str) -> str:
    """Say with what probability the held-out certificates about an attribute hold, if the smallest is pointed at."""
    number, confidence = together([cell for setting in settings for cell in setting.cells], attribute)
    percent = f"{math.floor(100 * confidence + 1e-6)}%"
    if number == 1:
        return f"at {percent} confidence"
    if confidence >= _ASKED - 1e-6:
        return f"at {_ASKED:.0%} for all {number} held-out certificates together"
    if confidence > 0:
        return f"at only {percent} for all {number} held-out certificates together, as each was computed alone"
    return (
        f"at no confidence for all {number} held-out certificates together, as each was computed alone and the "
        "smallest is chosen"
    )


def contradictions(setting: Setting, attribute: str) -> list[Contradiction]:
    """Return, for each certified quantity that is exceeded, the attacker and cell that exceed its bound most."""
    worst: dict[str, Contradiction] = {}
    for cell in setting.cells:
        for certificate in cell.result.binding_certificates(attribute):
            measure = _MEASURES.get(certificate.quantity)
            if measure is None or certificate.direction != "upper":
                continue
            for name, read in _readings(cell, attribute, measure):
                before = worst.get(certificate.quantity)
                excess = read.low - certificate.bound
                if excess > 0 and (before is None or excess > before.read.low - before.bound):
                    worst[certificate.quantity] = Contradiction(
                        certificate.quantity, certificate.bound, name, cell.seed, read
                    )
    return list(worst.values())


def certified_rates(settings: Sequence[Setting], attribute: str) -> list[CertifiedRate]:
    """Return the settings whose cells all have an uncontradicted rate certificate, each with its loosest bounds."""
    rates = []
    for setting in settings:
        by_cell = [_rate(cell, attribute) for cell in setting.cells]
        bounds = [bounds for bounds in by_cell if bounds is not None]
        if bounds and len(bounds) == len(by_cell) and not contradictions(setting, attribute):
            bits, accuracies, dealt = zip(*bounds, strict=True)
            rates.append(CertifiedRate(setting, max(bits), max(accuracies), any(dealt)))
    return rates


def _readings(cell: CellResult, attribute: str, measure: str) -> Iterable[tuple[str, Estimate]]:
    """Yield the name and figure of each attacker, also those outside the panel, if the figure has an interval."""
    judged = cell.result.leakage.get(attribute)
    panel = () if judged is None else judged.attackers
    for attacker in (*panel, *cell.result.beside_panel(attribute).values()):
        read = getattr(attacker, measure)
        if math.isfinite(read.estimate) and math.isfinite(read.low):
            yield attacker.name, read


def _rate(cell: CellResult, attribute: str) -> tuple[float, float, bool] | None:
    """Return bits, accuracy, and whether people are assumed to be dealt at random; None without a rate certificate."""
    certificates = {
        certificate.quantity: certificate
        for certificate in cell.result.binding_certificates(attribute)
        if certificate.direction == "upper" and certificate.method.startswith("rate certificate")
    }
    if _BITS not in certificates:
        return None
    accuracy = certificates[_ACCURACY].bound if _ACCURACY in certificates else 1.0
    return certificates[_BITS].bound, accuracy, bool(certificates[_BITS].assumptions.get(_DEALT))
