"""Two channels from an attribute to features whose mutual information is known to many digits."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fedveil.core.entropy import binary_entropy, mutual_information
from fedveil.core.errors import InputError

Floats = npt.NDArray[np.float64]


def gaussian_bits(distance: float, prior: float) -> float:
    """Return I(U; R) in bits of a binary U, P(U = 1) = prior, and R = ±distance/2 + N(0, 1).

    I = H(U) − E[H₂(P(U = 1 | R))]. The integrand is smooth and its tails are those of the normal density,
    so the trapezoidal rule converges faster than any power of the step.

    >>> round(gaussian_bits(2.0, 0.5), 5)
    0.48594
    """
    r = np.linspace(-distance / 2 - 12.0, distance / 2 + 12.0, 20_001)
    log_one = np.log(prior) - 0.5 * (r - distance / 2) ** 2
    log_zero = np.log1p(-prior) - 0.5 * (r + distance / 2) ** 2
    density = (np.exp(log_one) + np.exp(log_zero)) / np.sqrt(2 * np.pi)
    posterior = 1.0 / (1.0 + np.exp(np.clip(log_zero - log_one, -700.0, 700.0)))
    remaining = np.trapezoid(density * binary_entropy(posterior), r)
    return max(0.0, float(binary_entropy(prior)) - float(remaining))


def gaussian_for_bits(bits: float, prior: float) -> float:
    """Return the distance of the two means at which I(U; R) = bits."""
    from scipy.optimize import brentq

    if bits <= gaussian_bits(0.0, prior):  # nothing, but for rounding
        return 0.0
    farthest = 40.0
    if gaussian_bits(farthest, prior) < bits:
        raise InputError(f"synthetic: {bits} bits are too close to H(U) for two Gaussians; ask for a little less")
    return float(brentq(lambda distance: gaussian_bits(distance, prior) - bits, 0.0, farthest, xtol=1e-12))


def gaussian_bayes_accuracy(distance: float, prior: float) -> float:
    """Return the accuracy of the best guess of U from R: the posterior's threshold is ln((1−p)/p)/distance.

    >>> gaussian_bayes_accuracy(0.0, 0.7)
    0.7
    """
    from scipy.stats import norm

    if distance == 0.0:
        return max(prior, 1.0 - prior)
    threshold = np.log((1.0 - prior) / prior) / distance
    one, zero = norm.sf(threshold - distance / 2), norm.cdf(threshold + distance / 2)
    return float(prior * one + (1.0 - prior) * zero)


def confusion_table(error: float, values: int) -> Floats:
    """Return p(v | u): v = u with probability 1 − error, any other value alike."""
    return np.full((values, values), error / (values - 1)) + np.eye(values) * (1.0 - error - error / (values - 1))


def confusion_bits(error: float, prior: Floats) -> float:
    """Return I(U; V) of the confusion channel, exactly.

    >>> confusion_bits(0.0, np.full(4, 0.25)), confusion_bits(0.75, np.full(4, 0.25))
    (2.0, 0.0)
    """
    return mutual_information(prior[:, None] * confusion_table(error, len(prior)))


def confusion_for_bits(bits: float, prior: Floats) -> float:
    """Return the error at which I(U; V) = bits; the information falls from H(U) at 0 to nothing at (K−1)/K."""
    from scipy.optimize import brentq

    useless = (len(prior) - 1) / len(prior)
    if bits >= confusion_bits(0.0, prior):
        return 0.0
    if bits <= confusion_bits(useless, prior):  # nothing, but for rounding
        return useless
    return float(brentq(lambda error: confusion_bits(error, prior) - bits, 0.0, useless, xtol=1e-14))
