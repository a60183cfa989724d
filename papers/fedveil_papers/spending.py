"""The ε that a finished cell's noise shields have really spent."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fedveil.config.cells import load_data, make_federation
from fedveil.shields.dp.noise import KINDS, NoiseShield
from fedveil.shields.message import Kind

if TYPE_CHECKING:
    from fedveil.studies.check import Plan
    from fedveil.studies.results import CellResult


def spent_of(plan: Plan, cell: CellResult) -> dict[str, Any] | None:
    """Return what a cell's noise shield spent on the device (or person) that spent most; None without such a shield.

    Noise on updates is counted over the rounds in which the busiest device spoke, as the cell's result says; noise on
    inputs and representations over one release per person. `epsilon` is None where it is infinite.
    """
    method = plan.method(cell.method)
    data = load_data(plan.study, cell.seed)
    shield = make_federation(plan.study, method, cell.strength, cell.seed, data).shield
    if not isinstance(shield, NoiseShield):
        return None
    on_updates = KINDS[shield.place] is Kind.UPDATE
    certificate = cell.result.spent[0].as_dict() if on_updates else shield.spent(1).as_dict()
    finite = shield.clip is not None
    return {
        "epsilon": certificate["bound"] if finite else None,
        "delta": certificate["assumptions"].get("delta") if finite else None,
        "releases": certificate["assumptions"].get("releases") if finite else None,
        "place": shield.place,
        "clip": shield.clip,
    }


def most_spent(plan: Plan, cells: Sequence[CellResult]) -> dict[str, Any] | None:
    """Return what the cell spent that spent most, of one method and strength over seeds; ε = ∞ is the most."""
    found = [one for one in (spent_of(plan, cell) for cell in cells) if one is not None]
    return max(found, key=lambda one: math.inf if one["epsilon"] is None else float(one["epsilon"]), default=None)


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
