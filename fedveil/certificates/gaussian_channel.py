"""The certified mode: a representation is clipped to ‖r‖ ≤ R, and N(0, σ²I) is added before it leaves the device.

The guarantee holds whatever the extractor learned, even if it reads u, because it rests on nothing but the
noise: given any value of u, what leaves is a mixture of Gaussians whose means lie in a ball of radius R.

Symbols: s = √k·R/σ for k releases about one person (chosen adaptively or not); Φ the normal distribution
function; π the observer's priors over the K values of u. The numbers below bound the best attacker;
`GaussianRelease` turns them into certificates, with their assumptions.

* binary u: advantage ≤ 2Φ(s) − 1, balanced accuracy ≤ Φ(s) (two means are at most 2R apart); attained.
* K values: for an attacker who guesses k on the event A_k, let q_k = N(0, σ²I)(A_k). Neyman and Pearson against the
  centre of the ball give P(A_k | u=k) ≤ f(q_k), f(q) = Φ(Φ⁻¹(q) + s), hence
  accuracy ≤ max over q in the simplex of Σ π_k f(q_k); with equal priors Φ(Φ⁻¹(1/K) + s).
  f is concave (f′ = exp(−s·Φ⁻¹(q) − s²/2) falls with q), so the maximum is found through its dual, and *every*
  dual value is an upper bound: an imperfect solution is looser, never wrong. For K = 2 it is attained.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

from fedveil.certificates.certificate import Certificate
from fedveil.core.entropy import probabilities
from fedveil.core.errors import InputError
from fedveil.core.measures import advantage_from_balanced_accuracy

_CERTAIN = 40.0
"""Φ(40) is 1 in floating point, and Φ(−40) is 0 for every purpose here."""

_ROUNDING = 1e-15
"""Added once per value of u, so that the rounding of sums errs on the safe side."""


def signal_to_noise(radius: float, sigma: float, releases: int = 1) -> float:
    """Return s = √k·R/σ; infinite without noise, and 0 if only a constant is sent (R = 0)."""
    if not (radius >= 0.0 and math.isfinite(radius)):
        raise InputError(f"Gaussian channel: the radius must be finite and not negative, got {radius}; clip first")
    if not sigma >= 0.0:
        raise InputError(f"Gaussian channel: sigma must not be negative, got {sigma}")
    if releases < 1:
        raise InputError(f"Gaussian channel: count at least one release per person, got {releases}")
    if radius == 0.0:
        return 0.0
    return math.inf if sigma == 0.0 else math.sqrt(releases) * (radius / sigma)


def gaussian_advantage_bound(radius: float, sigma: float, releases: int = 1) -> float:
    """Return 2Φ(s) − 1: no attacker's advantage on any binary attribute is higher.

    >>> gaussian_advantage_bound(0.0, 1.0), gaussian_advantage_bound(1.0, 0.0)
    (0.0, 1.0)
    """
    return math.erf(signal_to_noise(radius, sigma, releases) / math.sqrt(2.0))


def gaussian_balanced_accuracy_bound(radius: float, sigma: float, values: int = 2, releases: int = 1) -> float:
    """Return Φ(Φ⁻¹(1/K) + s): no attacker's balanced accuracy over K values is higher.

    >>> gaussian_balanced_accuracy_bound(0.0, 1.0, values=4)
    0.25
    """
    if values < 2:
        raise InputError(f"Gaussian channel: an attribute needs at least two values, got {values}")
    s = signal_to_noise(radius, sigma, releases)
    return 1.0 / values if s == 0.0 else min(1.0, float(ndtr(ndtri(1.0 / values) + s)) + _ROUNDING)


def gaussian_accuracy_bound(radius: float, sigma: float, priors: npt.ArrayLike, releases: int = 1) -> float:
    """Return max over q of Σ π_k Φ(Φ⁻¹(q_k) + s): no attacker's accuracy under priors π is higher.

    >>> round(gaussian_accuracy_bound(1.0, 1.0, [0.5, 0.5]), 4)
    0.8413
    """
    prior = probabilities(priors, "priors")
    if prior.ndim != 1:
        raise InputError("Gaussian channel: priors must be one number per value of the attribute")
    s = signal_to_noise(radius, sigma, releases)
    prior = np.sort(prior[prior > 0.0])
    if s == 0.0 or len(prior) == 1:
        return min(1.0, float(prior[-1]))
    if math.isinf(s):
        return 1.0
    value = _dual_value(_solve_dual(prior, s), prior, s) + _ROUNDING * len(prior)
    # Anyone can guess the likeliest value, so a bound below its prior can only be due to rounding.
    return min(1.0, max(value, float(prior[-1])))


def sigma_for_advantage(target: float, radius: float, releases: int = 1) -> float:
    """Return the σ at which `gaussian_advantage_bound` meets the target, from above (never too little noise).

    >>> sigma = sigma_for_advantage(0.1, radius=1.0)
    >>> round(sigma, 2), gaussian_advantage_bound(1.0, sigma) <= 0.1
    (7.96, True)
    """
    if not 0.0 < target < 1.0:
        raise InputError(f"Gaussian channel: a target advantage must lie strictly between 0 and 1, got {target}")
    return sigma_for_accuracy(0.5 * (1.0 + target), radius, (0.5, 0.5), releases)


def sigma_for_accuracy(target: float, radius: float, priors: npt.ArrayLike, releases: int = 1) -> float:
    """Return the least σ, to 1e-9 relative and from above, at which `gaussian_accuracy_bound` is at most the target."""
    prior = probabilities(priors, "priors")
    if not float(prior.max()) < target < 1.0:
        raise InputError(
            f"Gaussian channel: a target accuracy must lie above the largest prior {prior.max():.4f} and below 1, "
            f"got {target}; no noise hides what the observer knew before"
        )
    if signal_to_noise(radius, 1.0, releases) == 0.0:
        return 0.0
    loud = quiet = math.sqrt(releases) * radius
    while gaussian_accuracy_bound(radius, loud, prior, releases) > target:
        loud *= 2.0
    while gaussian_accuracy_bound(radius, quiet, prior, releases) <= target:
        quiet /= 2.0
    while loud - quiet > 1e-9 * loud:
        middle = 0.5 * (loud + quiet)
        if gaussian_accuracy_bound(radius, middle, prior, releases) <= target:
            loud = middle
        else:
            quiet = middle
    return loud


@dataclass(frozen=True)
class GaussianRelease:
    """Representations clipped to a ball and released with Gaussian noise.

    Attributes:
        radius: R, enforced on ‖r‖ at release.
        sigma: σ, the noise's standard deviation in every coordinate.
        releases_per_person: k; repeated releases about one person add up as √k.
        norm_enforced_at_release: whether the device clips just before it adds the noise; if not, nothing is certified.

    >>> print(GaussianRelease(1.0, 10.0, norm_enforced_at_release=True).certify_advantage().rounded())
    0.080
    """

    radius: float
    sigma: float
    releases_per_person: int = 1
    norm_enforced_at_release: bool = False

    def __post_init__(self) -> None:
        signal_to_noise(self.radius, self.sigma, self.releases_per_person)

    def certify_advantage(self, values: int = 2) -> Certificate:
        """Certify the advantage, (K·BA − 1)/(K − 1), on any attribute of K values; for K = 2 it is 2Φ(s) − 1."""
        if values == 2:
            bound = gaussian_advantage_bound(self.radius, self.sigma, self.releases_per_person)
        else:
            bound = advantage_from_balanced_accuracy(
                gaussian_balanced_accuracy_bound(self.radius, self.sigma, values, self.releases_per_person),
                values,
            )
        return self._certificate("advantage", bound, {"values of u": values})

    def certify_balanced_accuracy(self, values: int = 2) -> Certificate:
        """Certify the balanced accuracy on any attribute of K values; no priors are needed."""
        bound = gaussian_balanced_accuracy_bound(self.radius, self.sigma, values, self.releases_per_person)
        return self._certificate("balanced accuracy", bound, {"values of u": values})

    def certify_accuracy(self, priors: npt.ArrayLike) -> Certificate:
        """Certify the accuracy on an attribute, given the observer's priors over its values."""
        bound = gaussian_accuracy_bound(self.radius, self.sigma, priors, self.releases_per_person)
        prior = tuple(float(p) for p in probabilities(priors, "priors"))
        return self._certificate("accuracy", bound, {"observer's priors": prior})

    def _certificate(self, quantity: str, bound: float, further: dict[str, object]) -> Certificate:
        if not self.norm_enforced_at_release:
            raise InputError(
                "Gaussian release: clip ‖r‖ to the radius on the device just before the noise, and declare "
                "norm_enforced_at_release=True; without clipping there is nothing to certify"
            )
        return Certificate(
            quantity=quantity,
            bound=bound,
            direction="upper",
            assumptions={
                "radius": float(self.radius),
                "sigma": float(self.sigma),
                "releases per person": self.releases_per_person,
                "norm enforced at release": self.norm_enforced_at_release,
                "noise": "independent N(0, σ²) in every coordinate, never published",
                **further,
            },
            does_not_cover=(
                "the extractor's parameters and updates, which are sent separately",
                "what the observer knew before: the bound is on what the release adds",
                "releases about the same person beyond those counted",
            ),
            method="Neyman–Pearson on the Gaussian channel",
            citation="Neyman and Pearson 1933; for repeated releases Dong, Roth and Su 2022",
        )


def _thresholds(log_multiplier: float, prior: npt.NDArray[np.float64], s: float) -> npt.NDArray[np.float64]:
    """Return t_k = Φ⁻¹(q_k) at which π_k f′(q_k) equals λ, the multiplier of the constraint Σ q_k = 1."""
    return np.asarray((np.log(prior) - log_multiplier) / s - 0.5 * s)


def _solve_dual(prior: npt.NDArray[np.float64], s: float) -> float:
    """Return ln λ where Σ Φ(t_k) = 1; the sum falls as λ grows, so the likeliest value brackets the root."""
    log_largest = math.log(prior[-1])
    all_mass_on_one = log_largest - s * (_CERTAIN + 0.5 * s)
    even = log_largest - s * (float(ndtri(1.0 / len(prior))) + 0.5 * s)

    def surplus(log_multiplier: float) -> float:
        return float(ndtr(_thresholds(log_multiplier, prior, s)).sum()) - 1.0

    # At `even` no q_k exceeds 1/K. With equal priors it is the root itself, where rounding decides the sign.
    if surplus(even) >= 0.0:
        return even
    if surplus(all_mass_on_one) <= 0.0:
        return all_mass_on_one
    return float(brentq(surplus, all_mass_on_one, even, xtol=1e-13 * max(1.0, abs(log_largest) + s * s), maxiter=500))


def _dual_value(log_multiplier: float, prior: npt.NDArray[np.float64], s: float) -> float:
    """Return λ + Σ max_q (π_k f(q) − λ q): an upper bound on the maximum for every λ > 0."""
    t = _thresholds(log_multiplier, prior, s)
    accuracy = float((prior * ndtr(t + s)).sum())
    # λ(1 − Σ Φ(t_k)) vanishes at the root; its logarithm is capped, because λ may overflow far from the root.
    return accuracy + math.exp(min(log_multiplier, 700.0)) * (1.0 - float(ndtr(t).sum()))
