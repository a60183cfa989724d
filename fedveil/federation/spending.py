"""What noise shields have spent in a run: how often each device sent an update, and the ε that this cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fedveil.shields.dp.noise import KINDS, NoiseShield
from fedveil.shields.message import Kind
from fedveil.shields.shield import members

if TYPE_CHECKING:
    from fedveil.certificates import Certificate
    from fedveil.core.arrays import IntArray
    from fedveil.federation.run import Run


def rounds_spoken(run: Run) -> IntArray:
    """Return how many rounds each device was asked for an update in, including those in which it sent nothing."""
    rounds = np.zeros(len(run.federation.partition), dtype=np.int64)
    sharing = {stage.name for stage in run.stages if stage.shared.intersection(stage.players)}
    for record in run.history:
        if record.stage in sharing:
            rounds[run.federation.sample(record.stage, record.round)] += 1
    return np.where(run.federation.partition.sizes > 0, rounds, 0)


def spent_in(run: Run) -> tuple[Certificate, ...]:
    """Return the ε spent by the device that was asked most often, for each noise shield on the run's updates.

    Without such a shield the result is empty.
    """
    most = int(rounds_spoken(run).max(initial=0))
    return tuple(
        shield.spent(most)
        for shield in members(run.shield)
        if isinstance(shield, NoiseShield) and KINDS[shield.place] is Kind.UPDATE
    )
