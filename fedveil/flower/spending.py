"""What sent updates cost in differential privacy, however their noise changed from one to the next.

Symbols: μ of one Gaussian release of an update clipped to B with noise σ is 2B/σ; ε₀ of one Laplace release is 2B/b.
Between any two clipped updates, in the local model. Metrics that leave beside an update are not counted.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from fedveil.core.errors import InputError
from fedveil.shields.shield import Chain, Shield

Mechanism = Literal["gaussian", "pure", "none"]


@dataclass(frozen=True)
class Cost:
    """What one release costs.

    Attributes:
        mechanism: gaussian: μ-Gaussian differential privacy; pure: ε₀ at δ = 0; none: nothing is guaranteed.
        amount: μ or ε₀; 0 where nothing is guaranteed.
    """

    mechanism: Mechanism
    amount: float = 0.0


def members(shield: Shield) -> Iterator[Shield]:
    """Return a chain's shields, or the one shield."""
    if isinstance(shield, Chain):
        for member in shield.shields:
            yield from members(member)
    else:
        yield shield


def costs_of(shield: Shield) -> tuple[Cost, ...]:
    """Return what one update through a shield costs; all noise of a chain is counted, which is never too little."""
    found = [cost for cost in map(_cost_of, members(shield)) if cost.mechanism != "none"]
    return tuple(found) or (Cost("none"),)


def _cost_of(shield: Shield) -> Cost:
    from fedveil.shields.dp.gaussian import DPGaussian
    from fedveil.shields.dp.laplace import DPLaplace

    if isinstance(shield, DPGaussian) and shield.clip is not None:
        return Cost("gaussian", 2 * shield.clip / shield.deviation)
    if isinstance(shield, DPLaplace) and shield.certifies:
        return Cost("pure", shield.spent(1, 0.0).bound)
    return Cost("none")


def epsilon_of(costs: Iterable[Cost], delta: float) -> float:
    """Return the ε at δ of all these releases together; infinite where one of them guarantees nothing.

    Gaussian releases: exact, with μ² = Σ μᵢ² (Dong, Roth and Su 2022, Corollary 3.3). Laplace ones with one ε₀: the
    optimum of Kairouz, Oh and Viswanath (2015, Theorem 3.3); with several: the least of Σ ε₀ and their Theorem 3.5.
    Both kinds: each at half of δ, or Laplace at none, whichever is less.

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


@functools.lru_cache(maxsize=64)  # one message asks for the same figure several times
def _gaussian(mu: float, delta: float) -> float:
    from fedveil.certificates import gaussian_epsilon

    if mu == 0:
        return 0.0
    return gaussian_epsilon(1 / mu, delta) if delta > 0 else math.inf


def _pure(amounts: Sequence[float], delta: float) -> float:
    from fedveil.certificates.differential_privacy import composed_epsilon

    if len(set(amounts)) == 1:
        return composed_epsilon(amounts[0], len(amounts), delta)
    total = sum(amounts)
    if delta == 0:
        return total
    drift = sum(own * math.tanh(own / 2) for own in amounts)  # (e^ε − 1)ε/(e^ε + 1)
    return min(total, drift + math.sqrt(2 * math.log(1 / delta) * sum(own**2 for own in amounts)))


@dataclass(frozen=True)
class Budget:
    """What a site may spend in all; None: no limit of that kind.

    Attributes:
        messages: how many updates may leave.
        evaluations: how many replies with figures alone; None: as many as are asked for while updates may still leave.
        epsilon, delta: of all updates together.
    """

    messages: int | None = None
    evaluations: int | None = None
    epsilon: float | None = None
    delta: float = 0.0

    def check(self, costs: Sequence[Cost], where: str) -> None:
        """Refuse an ε that cannot be kept account of, or that not even one update can stay within."""
        if self.epsilon is None:
            return
        if any(cost.mechanism == "none" for cost in costs):
            raise InputError(
                f"{where}: budget.epsilon: this shield has no differential privacy to keep account of; take a "
                "dp-gaussian or dp-laplace with a clip, or limit messages instead"
            )
        if self.delta == 0 and any(cost.mechanism == "gaussian" for cost in costs):
            raise InputError(f"{where}: budget.delta: is missing; Gaussian noise has no finite epsilon at delta = 0")
        least = epsilon_of(costs, self.delta)
        if least > self.epsilon:
            raise InputError(
                f"{where}: budget.epsilon: {self.epsilon:g} is less than the {least:.4g} of a single update; add noise"
            )

    def spent_by(self, past: Sequence[Cost], updates: int, next_costs: Sequence[Cost]) -> str | None:
        """Return why not one update more may leave after these, or None where it may."""
        if self.messages is not None and updates >= self.messages:
            return f"all {self.messages} messages of the budget are sent"
        if self.epsilon is not None:
            total = epsilon_of([*past, *next_costs], self.delta)
            if total > self.epsilon:
                spent = epsilon_of(past, self.delta)
                return (
                    f"epsilon {spent:.4g} of {self.epsilon:g} is spent, and one update more would make it {total:.4g}"
                )
        return None
