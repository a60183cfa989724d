"""What the updates sent cost in differential privacy, even if their noise changes from one to the next.

Symbols: μ of one Gaussian release of an update clipped to B with noise σ is 2B/σ; ε₀ of one Laplace release is 2B/b.
Both compare any two clipped updates, in the local model. Metrics that leave beside an update are not counted.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from fedveil.certificates.differential_privacy import composed_epsilon, gaussian_epsilon
from fedveil.core.errors import InputError
from fedveil.core.policy import Budget
from fedveil.shields.dp.gaussian import DPGaussian
from fedveil.shields.dp.laplace import DPLaplace
from fedveil.shields.shield import Shield, members

Mechanism = Literal["gaussian", "pure", "none"]


@dataclass(frozen=True)
class Cost:
    """What one release costs.

    Attributes:
        mechanism: gaussian: μ-Gaussian differential privacy; pure: ε₀ at δ = 0; none: nothing is guaranteed.
        amount: μ or ε₀; 0 if nothing is guaranteed.
    """

    mechanism: Mechanism
    amount: float = 0.0


def costs_of(shield: Shield) -> tuple[Cost, ...]:
    """Return what one update through a shield costs; the costs of all noise in a chain are added, so none is missed."""
    costs = [cost for cost in map(_cost_of, members(shield)) if cost.mechanism != "none"]
    return tuple(costs) or (Cost("none"),)


def _cost_of(shield: Shield) -> Cost:
    if isinstance(shield, DPGaussian) and shield.clip is not None:
        return Cost("gaussian", 2 * shield.clip / shield.deviation)
    if isinstance(shield, DPLaplace) and shield.certifies:
        return Cost("pure", shield.spent(1, 0.0).bound)
    return Cost("none")


def epsilon_of(costs: Iterable[Cost], delta: float) -> float:
    """Return the ε at δ of all these releases together; infinite if one of them guarantees nothing.

    Gaussian releases: exact, with μ² = Σ μᵢ² (Dong, Roth and Su 2022, Corollary 3.3). Laplace releases with one ε₀: the
    optimum of Kairouz, Oh and Viswanath (2015, Theorem 3.3); with several: the smaller of Σ ε₀ and their Theorem 3.5.
    With both kinds: each at half of δ, or Laplace at δ = 0, whichever total is smaller.

    >>> round(epsilon_of([Cost("gaussian", 0.5)] * 4, 1e-5), 3), epsilon_of([Cost("pure", 0.5)] * 4, 0.0)
    (4.377, 2.0)
    >>> epsilon_of([Cost("pure", 0.5), Cost("none")], 1e-5)
    inf
    """
    listed = list(costs)
    if any(cost.mechanism == "none" for cost in listed):
        return math.inf
    mu = math.sqrt(sum(cost.amount**2 for cost in listed if cost.mechanism == "gaussian"))
    pure = [cost.amount for cost in listed if cost.mechanism == "pure"]
    if not pure:
        return _gaussian(mu, delta)
    if mu == 0:
        return _pure(pure, delta)
    return min(_gaussian(mu, delta) + sum(pure), _gaussian(mu, delta / 2) + _pure(pure, delta / 2))


@functools.lru_cache(maxsize=64)  # one message needs the same figure several times
def _gaussian(mu: float, delta: float) -> float:
    if mu == 0:
        return 0.0
    return gaussian_epsilon(1 / mu, delta) if delta > 0 else math.inf


def _pure(amounts: Sequence[float], delta: float) -> float:
    if len(set(amounts)) == 1:
        return composed_epsilon(amounts[0], len(amounts), delta)
    total = sum(amounts)
    if delta == 0:
        return total
    drift = sum(amount * math.tanh(amount / 2) for amount in amounts)  # (e^ε − 1)ε/(e^ε + 1)
    return min(total, drift + math.sqrt(2 * math.log(1 / delta) * sum(amount**2 for amount in amounts)))


def check_budget(budget: Budget, costs: Sequence[Cost], where: str) -> None:
    """Refuse an ε that cannot be accounted for, or that a single update exceeds."""
    if budget.epsilon is None:
        return
    if any(cost.mechanism == "none" for cost in costs):
        raise InputError(
            f"{where}: budget.epsilon: this shield has no differential privacy to account for; use dp-gaussian or "
            "dp-laplace with a clip, or limit messages instead"
        )
    if budget.delta == 0 and any(cost.mechanism == "gaussian" for cost in costs):
        raise InputError(f"{where}: budget.delta: is missing; Gaussian noise has no finite epsilon at delta = 0")
    least = epsilon_of(costs, budget.delta)
    if least > budget.epsilon:
        raise InputError(
            f"{where}: budget.epsilon: {budget.epsilon:g} is less than the {least:.4g} of a single update; add noise"
        )


def exhausted(budget: Budget, past: Sequence[Cost], updates: int, next_costs: Sequence[Cost]) -> str | None:
    """Return why no further update may leave after these; None if one may."""
    if budget.messages is not None and updates >= budget.messages:
        return f"all {budget.messages} messages of the budget are sent"
    if budget.epsilon is not None:
        total = epsilon_of([*past, *next_costs], budget.delta)
        if total > budget.epsilon:
            spent = epsilon_of(past, budget.delta)
            return f"epsilon {spent:.4g} of {budget.epsilon:g} is spent, and one more update would make it {total:.4g}"
    return None
