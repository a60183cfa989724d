"""The ε that a finished cell's noise shields have really spent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fedveil.federation.progress import RoundRecord
from fedveil.federation.run import Run
from fedveil.shields.message import Kind
from fedveil.shields.noise import KINDS, NoiseShield
from fedveil.shields.noise_accounting import spent_in
from fedveil.studies.cells import load_data, make_federation, make_game

if TYPE_CHECKING:
    from fedveil.certificates import Certificate
    from fedveil.studies.check import Plan
    from fedveil.studies.results import CellResult


def spent_of(plan: Plan, cell: CellResult) -> dict[str, Any] | None:
    """Return what a cell's noise shield spent on the device (or person) that spent most; None without such a shield.

    Noise on updates is counted over the rounds in which the busiest device spoke, from the cell's recorded rounds;
    noise on inputs and representations over one release per person. `epsilon` is None where it is infinite.
    """
    method = plan.method(cell.method)
    federation = make_federation(plan.study, method, cell.strength, cell.seed, load_data(plan.study, cell.seed))
    shield = federation.shield
    if not isinstance(shield, NoiseShield):
        return None
    if KINDS[shield.place] is not Kind.UPDATE:
        return _plain(shield.spent(1), shield)
    run = Run(federation, make_game(method, cell.strength))
    run.progress.history = [RoundRecord(**record) for record in cell.metrics]
    (certificate,) = spent_in(run)
    return _plain(certificate, shield)


def _plain(certificate: Certificate, shield: NoiseShield) -> dict[str, Any]:
    finite = certificate.bound < float("inf")
    return {
        "epsilon": certificate.bound if finite else None,
        "delta": certificate.assumptions.get("delta") if finite else None,
        "releases": certificate.assumptions.get("releases") if finite else None,
        "place": shield.place,
        "clip": shield.clip,
    }


def spent_in_words(spent: dict[str, Any] | None) -> str:
    """Return what was spent, as a table shows it.

    >>> spent_in_words({"epsilon": 8.0, "delta": 1e-5, "releases": 6, "place": "update", "clip": 1.0})
    'ε = 8 (δ = 1e-05), update'
    """
    if spent is None:
        return "–"
    if spent["epsilon"] is None:
        return f"ε = ∞ (not clipped), {spent['place']}"
    delta = f" (δ = {spent['delta']:g})" if spent["delta"] else ""
    return f"ε = {spent['epsilon']:.3g}{delta}, {spent['place']}"
