"""Information privacy and attribute-based DP of discrete channels, exact; Attri-Fed's bounds printed and corrected.

Symbols: joint[u, y] = p(u, ŷ); channel[u, y] = P(ŷ|u), rows sum to 1; ε in nats as everywhere in DP,
leakage and entropies in bits. For continuous ŷ these are suprema that no sample can bound from above;
`epsilon_audit` gives lower bounds, `gaussian_channel` guarantees.

Sources: Saz (Attri-Fed), Definitions 1–3, eq. 22, Lemma 1, Corollary 1; du Pin Calmon and Fawaz 2012.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from fedveil.certificates.certificate import Certificate
from fedveil.core.arrays import FloatArray
from fedveil.core.entropy import entropy, probabilities
from fedveil.core.errors import InputError


def information_privacy_epsilon(joint: npt.ArrayLike) -> float:
    """Return the smallest ε with e^{−ε} ≤ p(u|ŷ)/p(u) ≤ e^ε for all u, ŷ that occur (Definition 3); may be ∞.

    >>> information_privacy_epsilon([[0.25, 0.25], [0.25, 0.25]])
    0.0
    """
    table = _joint(joint)
    independent = table.sum(axis=1, keepdims=True) * table.sum(axis=0, keepdims=True)
    return float(np.abs(_log(table) - _log(independent)).max())


def attribute_dp_epsilon(channel: npt.ArrayLike) -> float:
    """Return the smallest ε with P(ŷ|u) ≤ e^ε P(ŷ|u′) for all u, u′, ŷ: (ε, 0)-ADP; may be ∞."""
    logs = _log(_occurring(_channel(channel)))
    return float((logs.max(axis=0) - logs.min(axis=0)).max())


def attribute_dp_delta(channel: npt.ArrayLike, epsilon: float) -> float:
    """Return the smallest δ for which the channel is (ε, δ)-ADP.

    This is Definition 2 as it must read: P(E|u) ≤ e^ε P(E|u′) + δ for all events E. (The paper prints P/P′ ≤ e^ε + δ,
    which is (ln(e^ε + δ), 0)-DP under another name.) The worst event is the set of ŷ with P(ŷ|u) > e^ε P(ŷ|u′).
    """
    if not epsilon >= 0.0:
        raise InputError(f"attribute DP: epsilon must not be negative, got {epsilon}")
    rows = _channel(channel)
    if math.isinf(epsilon):
        scaled = np.where(rows > 0.0, np.inf, 0.0)
    else:
        with np.errstate(over="ignore"):
            scaled = math.exp(min(epsilon, 709.0)) * rows
    excess = np.maximum(rows[:, None, :] - scaled[None, :, :], 0.0).sum(axis=2)
    return min(1.0, float(excess.max()))


def is_attribute_dp(channel: npt.ArrayLike, epsilon: float, delta: float = 0.0) -> bool:
    """Return whether the channel is (ε, δ)-ADP, up to rounding."""
    return attribute_dp_delta(channel, epsilon) <= delta + 1e-12


def post_process(channel: npt.ArrayLike, kernel: npt.ArrayLike) -> FloatArray:
    """Return the channel followed by a (random) map kernel[y, z] of its output: none of the ε and δ above grows."""
    rows, step = _channel(channel), _channel(kernel)
    if rows.shape[1] != len(step):
        raise InputError(f"post-processing: the kernel must have {rows.shape[1]} rows, one per output, got {len(step)}")
    return np.asarray(rows @ step)


def dp_epsilon_from_information_privacy(epsilon: float) -> float:
    """Return 2ε: ε-information privacy implies (2ε, 0)-ADP; P(ŷ|u)/P(ŷ|u′) is a quotient of two ratios p(u|ŷ)/p(u)."""
    return 2.0 * _checked(epsilon)


def information_privacy_epsilon_from_dp(epsilon: float) -> float:
    """Return ε: (ε, 0)-ADP implies ε-information privacy under every prior, since p(ŷ) averages the P(ŷ|u′)."""
    return _checked(epsilon)


def largest_leakage(joint: npt.ArrayLike) -> float:
    """Return ΔC* = H(U) − min over ŷ of H(U | Ŷ=ŷ), in bits: what the most revealing output gives away."""
    table = _joint(joint)
    posteriors = table / table.sum(axis=0, keepdims=True)
    return entropy(table.sum(axis=1)) - min(entropy(posterior) for posterior in posteriors.T)


def corrected_leakage_bound(epsilon: float, attribute_entropy: float) -> float:
    """Return (1 − e^{−ε})·H(U) + e^{−ε}·ε/ln 2, at most H(U): ΔC* of an ε-information-private release.

    Proof: H(U|ŷ) = Σ p(u|ŷ) log 1/p(u|ŷ) ≥ e^{−ε} Σ p(u) log 1/p(u|ŷ) ≥ e^{−ε} Σ p(u) (log 1/p(u) − ε/ln 2); every
    logarithm in the first step is ≥ 0.
    """
    if math.isinf(_checked(epsilon)):
        return attribute_entropy
    shrink = math.exp(-epsilon)
    return min(attribute_entropy, (1.0 - shrink) * attribute_entropy + shrink * epsilon / math.log(2.0))


def printed_leakage_bound(epsilon: float, attribute_entropy: float) -> float:
    """Return eq. 22 as printed, (1 − e^ε)·H(U) + e^ε·ε/ln 2.

    Where it fails: on a fifth to a half of random laws, depending on how they are drawn. If ε/ln 2 is small compared
    with H(U), it is below ΔC*, even below 0. The sign of the exponent is wrong.
    """
    if math.isinf(_checked(epsilon)):
        return math.inf
    return (1.0 - math.exp(epsilon)) * attribute_entropy + math.exp(epsilon) * epsilon / math.log(2.0)


def printed_corollary1_epsilon(priors: npt.ArrayLike) -> float:
    """Return Corollary 1's ε = ln(1/T), T the smallest prior.

    It guarantees nothing: Lemma 1 bounds p(u|ŷ)/p(u) only from above, and by a number that no mechanism can exceed,
    not even one that publishes u. From below the ratio may be 0, so the channel need not be ε-IP.
    """
    return math.log(1.0 / float(_positive(priors).min()))


def certify_information_privacy(joint: npt.ArrayLike, basis: str) -> Certificate:
    """Certify the exact ε of a release whose joint law p(u, ŷ) is known; `basis` says how it is known."""
    return Certificate(
        quantity="epsilon of information privacy",
        bound=information_privacy_epsilon(joint),
        direction="upper",
        assumptions={"joint law p(u, ŷ)": "known exactly", "basis": basis, "releases per person": 1},
        does_not_cover=("laws estimated from samples", "another prior on u", "other messages"),
        method="largest |ln p(u|ŷ)/p(u)| over a known discrete law",
        citation="du Pin Calmon and Fawaz 2012",
    )


def _joint(joint: npt.ArrayLike) -> FloatArray:
    """Return the table without the values and outputs that never occur."""
    table = probabilities(joint, "joint law p(u, ŷ)")
    if table.ndim != 2:
        raise InputError(f"joint law p(u, ŷ): needs two axes, got {table.ndim}")
    return _occurring(table[table.sum(axis=1) > 0.0])


def _occurring(table: FloatArray) -> FloatArray:
    return np.asarray(table[:, table.sum(axis=0) > 0.0])


def _channel(channel: npt.ArrayLike) -> FloatArray:
    rows = np.asarray(channel, dtype=np.float64)
    if rows.ndim != 2 or rows.size == 0 or not np.all(rows >= 0.0) or not np.allclose(rows.sum(axis=1), 1.0, atol=1e-6):
        raise InputError("channel P(ŷ|u): needs one row per value, not negative, each summing to 1")
    return rows


def _positive(priors: npt.ArrayLike) -> FloatArray:
    values = probabilities(priors, "priors")
    return np.asarray(values[values > 0.0])


def _log(table: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(table))


def _checked(epsilon: float) -> float:
    if not epsilon >= 0.0:
        raise InputError(f"information privacy: epsilon must not be negative, got {epsilon}")
    return epsilon
