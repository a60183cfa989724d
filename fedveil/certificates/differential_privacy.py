"""Differential privacy's ε for Gaussian and Laplace noise: by a closed form if there is one, else by an accountant.

Accountants come from Opacus and dp-accounting (the extra `fedveil[dp]`), which are imported on the first call.
Symbols: noise multiplier = σ / sensitivity; sample rate q (Poisson); steps; δ. Unless stated otherwise, neighbours
differ by *adding or removing* one record. For attributes, *replacing* one is needed: see `neighbours` and
`advantage.replace_one_from_add_remove`.

| accountant | from | ε |
|---|---|---|
| "pld" | dp-accounting | privacy loss distributions; pessimistic, within its grid of the exact value |
| "prv" | Opacus | privacy random variables; an upper estimate with error at most 0.01 |
| "rdp" | Opacus | Rényi DP, best order, improved conversion |
| "dp-accounting rdp" | dp-accounting | the same by another implementation |

`dp_sgd_epsilon_at_order` is Rényi DP at one order with the first conversion (Mironov 2017, Proposition 3), as Attri-Fed
used it with α = 100: valid, and loose.
"""

from __future__ import annotations

import importlib
import logging
import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, get_args

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, log_ndtr, ndtr
from scipy.stats import binom

from fedveil.core.errors import InputError

Accountant = Literal["pld", "prv", "rdp", "dp-accounting rdp"]
Neighbours = Literal["add or remove", "replace"]

_NOISE_TOLERANCE = 1e-3
"""Calibrated noise exceeds the least sufficient noise by at most this share."""


def gaussian_delta(epsilon: float, noise_multiplier: float, releases: int = 1) -> float:
    """Return the exact δ(ε) of k Gaussian releases, Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ), μ = √k/noise (Balle, Wang 2018).

    It holds for either notion of neighbours, with the noise measured in that notion's sensitivity.
    """
    _check(noise_multiplier, 1.0, releases, 0.5)
    mu = math.sqrt(releases) / noise_multiplier
    return float(ndtr(mu / 2 - epsilon / mu)) - math.exp(epsilon + float(log_ndtr(-mu / 2 - epsilon / mu)))


def gaussian_epsilon(noise_multiplier: float, delta: float, releases: int = 1) -> float:
    """Return the exact ε of k Gaussian releases without sampling; needs no accountant.

    >>> round(gaussian_epsilon(4.0, 1e-5, releases=10), 3)
    3.341
    """
    _check(noise_multiplier, 1.0, releases, delta)
    if gaussian_delta(0.0, noise_multiplier, releases) <= delta:
        return 0.0
    high = 1.0
    while gaussian_delta(high, noise_multiplier, releases) > delta:
        high *= 2.0
    return float(brentq(lambda epsilon: gaussian_delta(epsilon, noise_multiplier, releases) - delta, 0.0, high))


def laplace_epsilon(scale: float, clip: float, *, clipped_in: Literal["L1", "L2"], dimensions: int = 1) -> float:
    """Return the pure ε of one Laplace release between any two clipped messages.

    Two messages with ‖·‖₁ ≤ B are at most 2B apart in L1: ε = 2B/b. Clipped in L2 they may be 2B√d apart, so that
    ε = 2B√d/b: the correct figure for the common practice of clipping in L2. k releases cost k times as much.

    >>> laplace_epsilon(2.0, 1.0, clipped_in="L1"), laplace_epsilon(2.0, 1.0, clipped_in="L2", dimensions=100)
    (1.0, 10.0)
    """
    if not (scale > 0.0 and clip >= 0.0 and dimensions >= 1):
        raise InputError(f"Laplace noise: needs scale > 0, clip ≥ 0, dimensions ≥ 1; got {scale}, {clip}, {dimensions}")
    if clipped_in not in ("L1", "L2"):
        raise InputError(f"Laplace noise: clipped_in must be 'L1' or 'L2', got {clipped_in!r}")
    return 2.0 * clip * (math.sqrt(dimensions) if clipped_in == "L2" else 1.0) / scale


def dp_sgd_epsilon(
    noise_multiplier: float,
    sample_rate: float,
    steps: int,
    delta: float,
    *,
    accountant: Accountant = "pld",
    neighbours: Neighbours = "add or remove",
) -> float:
    """Return the ε of `steps` Poisson-sampled Gaussian steps (DP-SGD) by the named accountant.

    Only "pld" accounts for replacement. The noise is measured in the sensitivity of adding a record in either case.
    """
    _check(noise_multiplier, sample_rate, steps, delta)
    if accountant not in get_args(Accountant):
        raise InputError(f"accountant {accountant!r} is not known; choose from: {', '.join(get_args(Accountant))}")
    if neighbours not in get_args(Neighbours):
        raise InputError(f"neighbours must be one of: {', '.join(get_args(Neighbours))}; got {neighbours!r}")
    if neighbours == "replace" and accountant != "pld":
        raise InputError(f"accountant {accountant!r} does not account for replacing a record; use 'pld'")
    if accountant in ("prv", "rdp"):
        module = _extra("opacus.accountants")
        opacus = (module.PRVAccountant if accountant == "prv" else module.RDPAccountant)()
        opacus.history = [(noise_multiplier, sample_rate, steps)]
        with _quiet("opacus"):
            return float(opacus.get_epsilon(delta))
    library = _extra("dp_accounting")
    step = library.GaussianDpEvent(noise_multiplier)
    sampled = library.PoissonSampledDpEvent(sample_rate, step) if sample_rate < 1.0 else step
    relation = library.NeighboringRelation
    with _quiet("dp_accounting"):
        if accountant == "pld":
            kind = relation.REPLACE_ONE if neighbours == "replace" else relation.ADD_OR_REMOVE_ONE
            account = _extra("dp_accounting.pld").PLDAccountant(neighboring_relation=kind)
        else:
            account = _extra("dp_accounting.rdp").RdpAccountant(neighboring_relation=relation.ADD_OR_REMOVE_ONE)
        account.compose(library.SelfComposedDpEvent(sampled, steps))
        return float(account.get_epsilon(delta))


def dp_sgd_epsilon_at_order(
    noise_multiplier: float, sample_rate: float, steps: int, delta: float, order: float = 100.0
) -> float:
    """Return RDP_α + ln(1/δ)/(α − 1) at one order α (Mironov 2017, Proposition 3; Attri-Fed: α = 100)."""
    _check(noise_multiplier, sample_rate, steps, delta)
    if not order > 1.0:
        raise InputError(f"Rényi DP: the order must exceed 1, got {order}")
    analysis = _extra("opacus.accountants.analysis.rdp")
    with _quiet("opacus"):
        divergence = analysis.compute_rdp(
            q=sample_rate, noise_multiplier=noise_multiplier, steps=steps, orders=float(order)
        )
    return float(divergence) + math.log(1.0 / delta) / (order - 1.0)


def dp_sgd_noise_multiplier(
    target_epsilon: float, sample_rate: float, steps: int, delta: float, *, accountant: Accountant = "pld"
) -> float:
    """Return the least noise multiplier, to 0.1 % and from above, whose ε is at most the target."""
    return _least_noise(
        lambda noise: dp_sgd_epsilon(noise, sample_rate, steps, delta, accountant=accountant), target_epsilon
    )


def gaussian_noise_multiplier(target_epsilon: float, delta: float, releases: int = 1) -> float:
    """Return the least noise multiplier, to 0.1 % and from above, of k Gaussian releases; exact, no accountant."""
    return _least_noise(lambda noise: gaussian_epsilon(noise, delta, releases), target_epsilon)


def laplace_scale(target_epsilon: float, clip: float, *, clipped_in: Literal["L1", "L2"], dimensions: int = 1) -> float:
    """Return the Laplace scale b at which one release has the target ε; see `laplace_epsilon`."""
    if not target_epsilon > 0.0:
        raise InputError(f"calibration: the target epsilon must be positive, got {target_epsilon}")
    return laplace_epsilon(1.0, clip, clipped_in=clipped_in, dimensions=dimensions) / target_epsilon


def _least_noise(epsilon_of: Callable[[float], float], target: float) -> float:
    """Return the least noise whose ε is at most the target, by interpolation in logarithms (accountants are slow)."""
    if not (target > 0.0 and math.isfinite(target)):
        raise InputError(f"calibration: the target epsilon must be positive and finite, got {target}")
    enough, too_little = 1.0, 0.5
    reached, missed = epsilon_of(enough), math.inf
    while reached > target:
        too_little, missed = enough, reached
        enough *= 2.0
        if enough > 1e6:
            raise InputError(f"calibration: no noise multiplier up to 1e6 reaches epsilon {target}; take fewer steps")
        reached = epsilon_of(enough)
    while math.isinf(missed):
        value = epsilon_of(too_little)
        if value > target:
            missed = value
        else:
            enough, reached, too_little = too_little, value, too_little / 2.0
            if enough < 1.0 / 64.0:
                raise InputError(f"calibration: epsilon {target} needs almost no noise; choose a smaller epsilon")
    while enough > too_little * (1.0 + _NOISE_TOLERANCE):
        middle = _between(math.log(too_little), math.log(enough), missed, reached, target)
        value = epsilon_of(middle)
        if value <= target:
            enough, reached = middle, value
        else:
            too_little, missed = middle, value
    return enough


def _between(low: float, high: float, missed: float, reached: float, target: float) -> float:
    """Interpolate ln ε over ln noise, and a little beyond the root towards the farther end, so that both ends move."""
    share = math.log(missed / target) / math.log(missed / reached) if reached > 0.0 else 0.5
    guess = low + share * (high - low)
    guess += 0.4 * _NOISE_TOLERANCE if guess - low < high - guess else -0.4 * _NOISE_TOLERANCE
    margin = 0.02 * (high - low)
    return math.exp(min(max(guess, low + margin), high - margin))


def _extra(module: str) -> Any:
    try:
        with _quiet(module.partition(".")[0]):
            return importlib.import_module(module)
    except ImportError as fault:
        raise InputError(
            f"differential privacy: {module.partition('.')[0]} is missing; pip install 'fedveil[dp]'"
        ) from fault


@contextmanager
def _quiet(package: str) -> Iterator[None]:
    """Silence warnings from inside the package (deprecations on import, log 0 in its grids), and no others.

    dp-accounting reports through absl's logger which Rényi orders it leaves out; that only makes ε larger.
    """
    log = logging.getLogger("absl")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            for category in (RuntimeWarning, DeprecationWarning, FutureWarning, UserWarning):
                warnings.filterwarnings("ignore", category=category, module=rf"{package}(\.|$)")
            yield
    finally:
        log.setLevel(level)


def _check(noise_multiplier: float, sample_rate: float, steps: int, delta: float) -> None:
    if not (noise_multiplier > 0.0 and math.isfinite(noise_multiplier)):
        raise InputError(f"differential privacy: the noise multiplier must be positive, got {noise_multiplier}")
    if not 0.0 < sample_rate <= 1.0:
        raise InputError(f"differential privacy: the sample rate must lie in (0, 1], got {sample_rate}")
    if steps < 1:
        raise InputError(f"differential privacy: needs at least one step or release, got {steps}")
    if not 0.0 < delta < 1.0:
        raise InputError(f"differential privacy: delta must lie strictly between 0 and 1, got {delta}")


def composed_epsilon(epsilon: float, releases: int, delta: float = 0.0) -> float:
    """Return the ε at δ of k adaptively chosen releases, each of which is ε₀-differentially private.

    At δ = 0 it is k·ε₀. At δ > 0 it is the optimum of Kairouz, Oh and Viswanath (2015, Theorem 3.3): no k such releases
    are easier to distinguish than k randomised responses, whose distribution is known.

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

    def excess(candidate: float) -> float:
        return float((chance * -np.expm1(np.minimum(candidate - loss, 0.0))).sum()) - delta

    return 0.0 if excess(0.0) <= 0 else float(brentq(excess, 0.0, releases * epsilon))
