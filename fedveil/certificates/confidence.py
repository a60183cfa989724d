"""One-sided confidence bounds from independent held-out records, valid at every sample size.

Each function states how it can fail, and fails with probability at most `alpha`; a caller that combines several bounds
divides alpha among them (union bound). Symbols: n records, K possible values, entropies in bits.

Entropy. With p the true law, X = −ln p(v|u) and A the mean of X over the records, the plug-in Ĥ is at most A,
because observed frequencies minimise the empirical cross-entropy. So Ĥ exceeds H only if A does. The second
derivative of X's cumulant function at s is X's variance under p^{1−s}, renormalised; that is the variance of
information under this law, divided by (1−s)². For K values it is at most
N_K = max_r r(1−r) ln²((1−r)(K−1)/r) (Reeb and Wolf 2015), and a condition u adds at most ln²K/4 between its
values. Integrating twice shows that X is sub-gamma above (scale 1) and sub-Gaussian below.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.special import betaincinv

from fedveil.core.entropy import plug_in_conditional_entropy, plug_in_entropy
from fedveil.core.errors import InputError


def check_alpha(alpha: float) -> None:
    """Refuse a failure probability outside (0, 1)."""
    if not 0.0 < alpha < 1.0:
        raise InputError(f"confidence: the failure probability must lie strictly between 0 and 1, got {alpha}")


def mean_upper_bound(values: npt.ArrayLike, low: float, high: float, alpha: float) -> float:
    """Return an upper bound on the mean of a variable in [low, high] (empirical Bernstein).

    Guarantee: below the true mean with probability at most alpha (Maurer and Pontil 2009, Theorem 4).
    """
    check_alpha(alpha)
    sample = np.asarray(values, dtype=np.float64)
    if sample.ndim != 1 or len(sample) < 2:
        raise InputError("mean bound: needs one value per record and at least two records")
    if not (sample.min() >= low - 1e-9 and sample.max() <= high + 1e-9):
        raise InputError(f"mean bound: values must lie in [{low}, {high}], got {sample.min()} … {sample.max()}")
    n, log_term = len(sample), math.log(2.0 / alpha)
    slack = math.sqrt(2.0 * float(sample.var(ddof=1)) * log_term / n) + 7.0 * (high - low) * log_term / (3.0 * (n - 1))
    return min(high, float(sample.mean()) + slack)


def proportion_bounds(successes: int, trials: int, alpha: float) -> tuple[float, float]:
    """Return Clopper and Pearson's (1934) lower and upper bounds; *each* fails with probability at most alpha.

    >>> proportion_bounds(0, 10, 0.025)[0], round(proportion_bounds(0, 10, 0.025)[1], 4)
    (0.0, 0.3085)
    """
    check_alpha(alpha)
    if not 0 <= successes <= trials:
        raise InputError(f"proportion: needs 0 ≤ successes ≤ trials, got {successes} of {trials}")
    low = 0.0 if successes == 0 else float(betaincinv(successes, trials - successes + 1, alpha))
    high = 1.0 if successes == trials else float(betaincinv(successes + 1, trials - successes, 1.0 - alpha))
    return low, high


def largest_information_variance(values: int) -> float:
    """Return N_K in nats²: the largest variance of −ln p(v) over laws on K values (Reeb and Wolf 2015).

    >>> round(largest_information_variance(2), 3)
    0.439
    """
    if values < 2:
        return 0.0
    r = np.linspace(0.0, 1.0, 20_001)[1:-1]
    at_grid = r * (1.0 - r) * np.log((1.0 - r) * (values - 1) / r) ** 2
    # The grid misses the maximum by much less than the 1e-5 that is added.
    return float(at_grid.max()) * (1.0 + 1e-5)


def conditional_entropy_lower_bound(
    labels: npt.ArrayLike, given: npt.ArrayLike | None, values: int, alpha: float
) -> float:
    """Return a lower bound, in bits, on H(labels | given), or on H(labels) without a condition.

    Guarantee: above the truth with probability at most alpha, for independent records and labels that can
    take at most K = `values` values. The bias of the plug-in estimate is downward, which only costs tightness; it is
    about (cells of the condition)·(K−1)/(2n ln 2), and large if the condition has many cells.
    """
    check_alpha(alpha)
    n = len(np.asarray(labels))
    if given is None:
        plug_in, variance = plug_in_entropy(labels), largest_information_variance(values)
    else:
        plug_in = plug_in_conditional_entropy(labels, given)
        variance = largest_information_variance(values) + 0.25 * math.log(values) ** 2
    log_term = math.log(1.0 / alpha) / n
    return max(0.0, plug_in - (math.sqrt(2.0 * variance * log_term) + log_term) / math.log(2.0))


def entropy_upper_bound(labels: npt.ArrayLike, values: int, alpha: float) -> float:
    """Return an upper bound, in bits, on H(labels); never above log₂ K.

    Guarantee: below the truth with probability at most alpha. H − Ĥ = (H − A) + KL(p̂‖p): the first part is
    sub-Gaussian as above; for the second P(KL ≥ t) ≤ e^{−nt} (e·n·t/(K−1))^{K−1} (Agrawal 2020).
    """
    check_alpha(alpha)
    n = len(np.asarray(labels))
    plug_in = plug_in_entropy(labels)
    if values < 2:
        return 0.0
    log_term, k = math.log(2.0 / alpha), float(values - 1)
    # With x = n·t and k = K − 1 the tail is e^{−x}(e·x/k)^k, which is 1 at x = k and falls from there on.
    x = float(brentq(lambda x: x - k * (1.0 + math.log(x / k)) - log_term, k, 8.0 * k + 4.0 * log_term))
    slack = math.sqrt(2.0 * largest_information_variance(values) * log_term / n) + x / n
    return min(math.log2(values), plug_in + slack / math.log(2.0))
