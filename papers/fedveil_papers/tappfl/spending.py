"""The ε that the noise shield of a finished cell has spent."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedveil.config.cells import load_data, make_federation
from fedveil.shields.dp.noise import KINDS, NoiseShield
from fedveil.shields.message import Kind

if TYPE_CHECKING:
    from fedveil.studies.check import Plan
    from fedveil.studies.results import CellResult


@dataclass(frozen=True)
class Spent:
    """What was spent on the device, or the person, that spent most.

    Attributes:
        epsilon: ε; None if it is infinite, because nothing is clipped.
        delta: δ; None for pure differential privacy.
        releases: how many releases it covers.
        place: what the noise is added to.
        clip: the norm to which that is clipped.
    """

    epsilon: float | None
    delta: float | None
    releases: int | None
    place: str
    clip: float | None

    def __str__(self) -> str:
        """Return it as a table shows it.

        >>> str(Spent(8.0, 1e-5, 6, "update", 1.0))
        'ε = 8 (δ = 1e-05), update'
        """
        if self.epsilon is None:
            return f"ε = ∞ (not clipped), {self.place}"
        delta = f" (δ = {self.delta:g})" if self.delta else ""
        return f"ε = {self.epsilon:.3g}{delta}, {self.place}"


def spent_of(plan: Plan, cell: CellResult) -> Spent | None:
    """Return what a cell's noise shield spent; None without such a shield.

    Noise on updates is counted over the rounds in which the busiest device sent one, as the cell's result states; noise
    on inputs and representations is counted over one release per person.
    """
    method = plan.method(cell.method)
    data = load_data(plan.study, cell.seed)
    shield = make_federation(plan.study, method, cell.strength, cell.seed, data).shield
    if not isinstance(shield, NoiseShield):
        return None
    if shield.clip is None:
        return Spent(None, None, None, shield.place, None)
    if KINDS[shield.place] is Kind.UPDATE:
        on_updates = cell.result.spent[0]
        return Spent(on_updates.epsilon, on_updates.delta, on_updates.releases, shield.place, shield.clip)
    certificate = shield.spent(1)
    delta = certificate.assumptions.get("delta")
    return Spent(certificate.bound, delta if isinstance(delta, float) else None, 1, shield.place, shield.clip)


def most_spent(plan: Plan, cells: Sequence[CellResult]) -> Spent | None:
    """Return the most that any cell of one method and strength spent, over seeds; ε = ∞ is the most."""
    by_cell = [spent for spent in (spent_of(plan, cell) for cell in cells) if spent is not None]
    return max(by_cell, key=lambda spent: math.inf if spent.epsilon is None else spent.epsilon, default=None)


def in_words(spent: Spent | None) -> str:
    """Return what was spent as a table shows it; a dash if nothing was."""
    return "–" if spent is None else str(spent)
