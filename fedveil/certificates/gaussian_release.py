"""A release through the Gaussian channel, with everything its certificates assume as fields."""

from __future__ import annotations

from dataclasses import dataclass

import numpy.typing as npt

from fedveil.certificates import gaussian_channel as channel
from fedveil.certificates.advantage import advantage_from_balanced_accuracy
from fedveil.certificates.certificate import Certificate
from fedveil.core.entropy import probabilities
from fedveil.core.errors import InputError


@dataclass(frozen=True)
class GaussianRelease:
    """Representations clipped to a ball and released with Gaussian noise.

    Attributes:
        radius: R, enforced on ‖r‖ at release.
        sigma: σ, the noise's standard deviation in every coordinate.
        releases_per_person: k; repeated releases about one person add up as √k.
        norm_enforced_at_release: that the device clips just before the noise. Without it nothing is certified.

    >>> print(GaussianRelease(1.0, 10.0, norm_enforced_at_release=True).certify_advantage().rounded())
    0.080
    """

    radius: float
    sigma: float
    releases_per_person: int = 1
    norm_enforced_at_release: bool = False

    def __post_init__(self) -> None:
        channel.signal_to_noise(self.radius, self.sigma, self.releases_per_person)

    def certify_advantage(self, values: int = 2) -> Certificate:
        """Certify the advantage, (K·BA − 1)/(K − 1), on any attribute of K values; for K = 2 it is 2Φ(s) − 1."""
        if values == 2:
            bound = channel.gaussian_advantage_bound(self.radius, self.sigma, self.releases_per_person)
        else:
            bound = advantage_from_balanced_accuracy(
                channel.gaussian_balanced_accuracy_bound(self.radius, self.sigma, values, self.releases_per_person),
                values,
            )
        return self._certificate("advantage", bound, {"values of u": values})

    def certify_balanced_accuracy(self, values: int = 2) -> Certificate:
        """Certify the balanced accuracy on any attribute of K values; it needs no priors."""
        bound = channel.gaussian_balanced_accuracy_bound(self.radius, self.sigma, values, self.releases_per_person)
        return self._certificate("balanced accuracy", bound, {"values of u": values})

    def certify_accuracy(self, priors: npt.ArrayLike) -> Certificate:
        """Certify the accuracy on an attribute whose values have these priors for the observer."""
        bound = channel.gaussian_accuracy_bound(self.radius, self.sigma, priors, self.releases_per_person)
        known = tuple(float(p) for p in probabilities(priors, "priors"))
        return self._certificate("accuracy", bound, {"observer's priors": known})

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
                "the extractor's parameters and updates, which leave by another door",
                "what the observer knew before: the bound is on what the release adds",
                "releases about the same person beyond those counted",
            ),
            method="Neyman–Pearson on the Gaussian channel",
            citation="Neyman and Pearson 1933; for repeated releases Dong, Roth and Su 2022",
        )
