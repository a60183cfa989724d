"""Advantage, balanced accuracy and accuracy: their conversions, and the bounds on them under (ε, δ)-DP.

Symbols: K values of u; balanced accuracy BA = the mean over values of the probability of a right guess;
advantage = (K·BA − 1)/(K − 1): 0 for guessing, 1 for certainty, and for binary u the total variation.

The DP bounds need indistinguishability between *values of the attribute*: P(E|u) ≤ e^ε P(E|u′) + δ for
every pair. DP for *replacing* a record provides it; an accountant's ε for adding or removing a record must be
converted by `replace_one_from_add_remove` first.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from fedveil.certificates.certificate import Certificate
from fedveil.core.entropy import probabilities
from fedveil.core.errors import InputError
from fedveil.core.measures import advantage_from_balanced_accuracy


def balanced_accuracy_from_advantage(advantage: float, values: int) -> float:
    """Return (1 + (K − 1)·advantage)/K, the inverse of `advantage_from_balanced_accuracy`."""
    _check_values(values)
    return (1.0 + (values - 1) * advantage) / values


def replace_one_from_add_remove(epsilon: float, delta: float) -> tuple[float, float]:
    """Return the (ε, δ) of replacing a record, 2ε and δ(1 + e^ε), from those of adding or removing one.

    A replacement is a removal and an addition (group privacy; Dwork and Roth 2014, §2.3).
    An accountant for replacement itself gives a smaller ε: see `differential_privacy`.
    """
    _check_epsilon(epsilon, delta)
    return 2.0 * epsilon, min(1.0, delta * (1.0 + _exp(epsilon)) if delta > 0.0 else 0.0)


def dp_advantage_bound(epsilon: float, delta: float = 0.0) -> float:
    """Return (e^ε − 1 + 2δ)/(e^ε + 1), the largest possible advantage on a binary attribute (Kairouz et al. 2015).

    >>> dp_advantage_bound(0.0)
    0.0
    """
    return advantage_from_balanced_accuracy(dp_balanced_accuracy_bound(epsilon, delta, 2), 2)


def dp_balanced_accuracy_bound(epsilon: float, delta: float = 0.0, values: int = 2) -> float:
    """Return (e^ε + (K−1)δ)/(e^ε + K − 1): no attacker's balanced accuracy over K values is higher.

    It is `dp_accuracy_bound` with equal priors.
    """
    _check_values(values)
    return dp_accuracy_bound(epsilon, delta, np.full(values, 1.0 / values))


def dp_accuracy_bound(epsilon: float, delta: float, priors: npt.ArrayLike) -> float:
    """Return a ceiling on every attacker's accuracy under priors π and (ε, δ)-indistinguishable values.

    Bound: max_k c_k + δ Σ_k π_k(1−π_k)/(π_k e^ε + 1 − π_k) with c_k = π_k e^ε/(π_k e^ε + 1 − π_k), capped at 1.

    Proof: let p_k = P(guess k | u=k) and q_k = P(guess k). DP gives P(guess k | u=j) ≥ e^{−ε}(p_k − δ) for j ≠ k,
    hence q_k ≥ π_k p_k + (1−π_k) e^{−ε}(p_k − δ), hence π_k p_k ≤ c_k (q_k + (1−π_k) e^{−ε} δ). Sum over k with
    Σ q_k = 1. For δ = 0 it is attained by randomised response with the largest prior.

    >>> round(dp_accuracy_bound(0.0, 0.0, [0.7, 0.3]), 6)
    0.7
    """
    _check_epsilon(epsilon, delta)
    prior = probabilities(priors, "priors")
    # Everything is expressed in terms of e^{−ε}, which cannot overflow.
    shrink = math.exp(-epsilon)
    weight = prior + (1.0 - prior) * shrink
    ceiling = np.divide(prior, weight, out=np.zeros_like(prior), where=prior > 0.0)
    excess = delta * shrink * float((ceiling * (1.0 - prior)).sum())
    return min(1.0, float(ceiling.max()) + excess)


def certify_accuracy_from_dp(epsilon: float, delta: float, priors: npt.ArrayLike, *, protects: str) -> Certificate:
    """Certify a ceiling on accuracy from (ε, δ) that holds between any two values of the attribute.

    Args:
        epsilon: ε of indistinguishability between values of u (for replacing a record, not for adding one).
        delta: its δ.
        priors: what the observer knew about u beforehand.
        protects: which messages the mechanism covers, in words.
    """
    return Certificate(
        quantity="accuracy",
        bound=dp_accuracy_bound(epsilon, delta, priors),
        direction="upper",
        assumptions={
            "epsilon between values": epsilon,
            "delta": delta,
            "priors": tuple(float(p) for p in probabilities(priors, "priors")),
            "covered messages": protects,
        },
        does_not_cover=(
            "messages outside the mechanism",
            "what the observer knew before: the priors",
            "correlated people",
        ),
        method="indistinguishability to accuracy, closed form",
        citation="for K = 2 Kairouz, Oh and Viswanath 2015; for K values and priors the proof in dp_accuracy_bound",
    )


def _exp(epsilon: float) -> float:
    return math.exp(epsilon) if epsilon < 700.0 else math.inf


def _check_values(values: int) -> None:
    if values < 2:
        raise InputError(f"advantage: an attribute needs at least two values, got {values}")


def _check_epsilon(epsilon: float, delta: float) -> None:
    if not epsilon >= 0.0:
        raise InputError(f"differential privacy: epsilon must not be negative, got {epsilon}")
    if not 0.0 <= delta <= 1.0:
        raise InputError(f"differential privacy: delta must lie in [0, 1], got {delta}")
