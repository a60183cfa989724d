"""What noise shields spent in a run: how often each device spoke, and what that costs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit
from scipy.stats import binom

from fedveil.errors import InputError
from fedveil.shields.message import Kind
from fedveil.shields.noise import KINDS, NoiseShield
from fedveil.shields.shield import Chain, Shield

if TYPE_CHECKING:
    from fedveil.certificates import Certificate
    from fedveil.data.attribute import IntArray
    from fedveil.federation.run import Run


def composed_epsilon(epsilon: float, releases: int, delta: float = 0.0) -> float:
    """Return the ε at δ of k releases, each ε₀-differentially private, adaptively chosen.

    At δ = 0 it is k·ε₀. At δ > 0 it is the optimum of Kairouz, Oh and Viswanath (2015, Theorem 3.3): no k such releases
    are told apart better than k randomised responses are, and of those the law is known.

    >>> composed_epsilon(0.1, 100), round(composed_epsilon(0.1, 100, 1e-5), 3)
    (10.0, 4.307)
    """
    if not 0 <= delta < 1:
        raise InputError(f"composition: delta must lie in [0, 1), got {delta}")
    if releases == 0 or delta == 0.0:
        return releases * epsilon
    lies = np.arange(releases + 1)
    chance = binom.pmf(lies, releases, expit(-epsilon))
    loss = (releases - 2 * lies) * epsilon

    def excess(at: float) -> float:
        return float((chance * -np.expm1(np.minimum(at - loss, 0.0))).sum()) - delta

    return 0.0 if excess(0.0) <= 0 else float(brentq(excess, 0.0, releases * epsilon))


def rounds_spoken(run: Run) -> IntArray:
    """Return in how many rounds so far each device was asked for an update; a silent one is counted, too."""
    spoken = np.zeros(len(run.federation.partition), dtype=np.int64)
    sharing = {stage.name for stage in run.stages if stage.shared.intersection(stage.players)}
    for record in run.history:
        if record.stage in sharing:
            spoken[run.federation.sample(record.stage, record.round)] += 1
    return np.where(run.federation.partition.sizes > 0, spoken, 0)


def spent_in(run: Run) -> tuple[Certificate, ...]:
    """Return the ε that the device spent that spoke most often; one for each noise shield on the run's updates.

    Without such a shield there is none to return.
    """
    most = int(rounds_spoken(run).max(initial=0))
    return tuple(
        shield.spent(most)
        for shield in _members(run.shield)
        if isinstance(shield, NoiseShield) and KINDS[shield.place] is Kind.UPDATE
    )


def _members(shield: Shield) -> Iterator[Shield]:
    if isinstance(shield, Chain):
        for member in shield.shields:
            yield from _members(member)
    else:
        yield shield
