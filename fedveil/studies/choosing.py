"""The smallest of several certificates: a choice that has to be paid for.

A held-out certificate holds with probability 1 − α over the people on whom it was computed. Who computes m of them and
then points at the smallest picks the one that is most likely to be too small. If each is stated at α/m, all hold
together with probability 1 − α, and with them the smallest (union bound).

About one attribute, m counts the held-out certificates of every method and strength of the study: the kinds of bound,
for each kind of observer. Certificates that always hold, such as those of noise or of an exact count, are not among
them. Seeds do not multiply m, since of several seeds' bounds the largest is stated (`weakest_certificates`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from fedveil.studies.model import StatedCertificate
from fedveil.studies.rows import by_point

if TYPE_CHECKING:
    from fedveil.studies.results import CellResult


class Together(NamedTuple):
    """How many held-out certificates a study has about an attribute, and with what probability all of them hold."""

    number: int
    confidence: float


def pay_for_choice(cells: Sequence[CellResult]) -> list[CellResult]:
    """Return a study's cells with each held-out certificate at its share of α; see the module."""
    numbers = {
        attribute: candidates(cells, attribute)
        for attribute in dict.fromkeys(name for cell in cells for name in cell.result.certificates)
    }
    return [_paid(cell, numbers) for cell in cells]


def candidates(cells: Sequence[CellResult], attribute: str) -> int:
    """Return m: the held-out certificates about an attribute, over all methods and strengths."""
    return sum(
        max(len(_held_out(cell, attribute)) for cell in cells_at_point) for cells_at_point in by_point(cells).values()
    )


def together(cells: Sequence[CellResult], attribute: str) -> Together:
    """Return with what probability all held-out certificates about an attribute hold, by the union bound."""
    failure = sum(
        max(sum(1.0 - (stated.confidence or 1.0) for stated in _held_out(cell, attribute)) for cell in cells_at_point)
        for cells_at_point in by_point(cells).values()
    )
    return Together(candidates(cells, attribute), max(0.0, 1.0 - failure))


def _paid(cell: CellResult, numbers: dict[str, int]) -> CellResult:
    if not any(_held_out(cell, attribute) for attribute in cell.result.certificates):
        return cell
    stated = {
        attribute: tuple(_shared(certificate, attribute, numbers[attribute]) for certificate in certificates)
        for attribute, certificates in cell.result.certificates.items()
    }
    return replace(cell, result=replace(cell.result, certificates=stated))


def _shared(certificate: StatedCertificate, attribute: str, number: int) -> StatedCertificate:
    if not certificate.held_out or number < 2:
        return certificate
    shared = certificate.shared_among(number)
    how = (
        f"{number} held-out certificates about {attribute} in this study, which hold together at "
        f"{certificate.confidence:.4g}"
        if shared is not certificate
        else f"{number} held-out certificates about {attribute} in this study; not corrected for that choice"
    )
    return replace(shared, assumptions={**shared.assumptions, "chosen among": how})


def _held_out(cell: CellResult, attribute: str) -> list[StatedCertificate]:
    return [stated for stated in cell.result.binding_certificates(attribute) if stated.held_out]
