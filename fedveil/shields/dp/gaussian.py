"""DP-Gaussian: clip in L2 and add N(0, σ²I), with the ε that this really spends."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from fedveil.core.errors import InputError
from fedveil.shields.dp.noise import NOT_COVERED, NoiseShield, Place, count, one_of, unbounded

if TYPE_CHECKING:
    import numpy.typing as npt

    from fedveil.certificates import Certificate


class DPGaussian(NoiseShield):
    """Send v·min(1, B/‖v‖₂) + N(0, σ²I).

    Symbols: v a message's row, B the clip, σ the standard deviation of the noise, k the number of releases, δ as in
    (ε, δ).
    Guarantee: two clipped messages differ by at most 2B, so k of them, chosen adaptively or not, are μ-Gaussian
    differentially private in the local model with μ = 2B√k/σ, and δ(ε) = Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ), exactly
    (Balle and Wang 2018; Dong, Roth and Su 2022). Any attacker's advantage on a binary attribute is at most
    2Φ(√k·B/σ) − 1. Sampling devices gains nothing: the server sees whom it sampled.
    Where the papers' form fails: TAPPFL and its rivals add noise to *unclipped* parameters. That is `clip=None`; its ε
    is infinite for every σ, and no certificate is given.

    Attributes:
        sigma: the standard deviation of the noise on each number; or give epsilon.
        clip: the norm B to which a message is clipped; null (None) for no clipping, as in the papers.
        place: what noise is added to: the update, each input, or each representation (also called last-layer).
        epsilon: choose the least σ whose ε over `releases` rounds is at most this, at `delta`.
        delta: the δ of (ε, δ).
        releases: the most rounds in which a device sends an update; 1 for inputs and representations.
    """

    name = "DP-Gaussian"
    neighbours = "any two clipped messages (local model)"
    """The two inputs that differential privacy makes hard to distinguish, as the certificate names them."""

    def __init__(
        self,
        sigma: float | None = None,
        clip: float | None = 1.0,
        place: Place = "update",
        epsilon: float | None = None,
        delta: float = 1e-5,
        releases: int = 1,
    ) -> None:
        super().__init__(clip, place)
        one_of(self.name, "sigma", sigma, epsilon, clip)
        if not 0 < delta < 1:
            raise InputError(f"{self.name}: delta must lie strictly between 0 and 1, got {delta}")
        self.epsilon, self.delta, self.releases = epsilon, delta, count(self.name, releases)
        self.sigma = float(sigma) if sigma is not None else self._calibrated()

    @property
    def deviation(self) -> float:
        """The standard deviation of the noise on a message clipped to B."""
        return self.sigma

    def _calibrated(self) -> float:
        from fedveil.certificates import gaussian_noise_multiplier

        assert self.clip is not None
        assert self.epsilon is not None
        try:
            return 2 * self.clip * gaussian_noise_multiplier(self.epsilon, self.delta, max(1, self.releases))
        except InputError as fault:
            raise InputError(f"{self.name}: epsilon {self.epsilon} cannot be reached: {fault}") from fault

    @classmethod
    def for_advantage(
        cls, advantage: float, releases: int = 1, clip: float = 1.0, place: Place = "update", delta: float = 1e-5
    ) -> DPGaussian:
        """Return the shield with the least noise that bounds any attacker's advantage on a binary attribute by this."""
        from fedveil.certificates import sigma_for_advantage

        return cls(sigma_for_advantage(advantage, clip, releases), clip, place, delta=delta, releases=releases)

    def noise(self, shape: torch.Size, generator: torch.Generator) -> Tensor:
        """Draw Gaussian noise for every coordinate."""
        return self.deviation * torch.randn(shape, generator=generator, dtype=torch.float64)

    def spent(self, releases: int | None = None, delta: float | None = None) -> Certificate:
        """Return the (ε, δ) that one device has spent after this many messages; ε = ∞ if they are not clipped."""
        from fedveil.certificates import Certificate, gaussian_epsilon

        if self.clip is None:
            return unbounded(self.name, "sigma", self.sigma)
        messages = count(self.name, self.releases if releases is None else releases)
        delta = self.delta if delta is None else delta
        return Certificate(
            quantity="epsilon",
            bound=gaussian_epsilon(self.deviation / (2 * self.clip), delta, messages) if messages else 0.0,
            direction="upper",
            assumptions={
                "delta": delta,
                "clip (L2)": self.clip,
                "sigma": self.sigma,
                "releases": messages,
                "neighbours": self.neighbours,
                "sampling": "not counted: the server sees whom it sampled",
                **self.covers(),
            },
            does_not_cover=NOT_COVERED,
            method="exact for Gaussian noise, composed over the releases",
            citation="Balle and Wang 2018; Dong, Roth and Su 2022",
        )

    def certificates_over(self, releases: int, values: int, priors: npt.ArrayLike) -> tuple[Certificate, ...]:
        """Certify advantage, balanced accuracy and accuracy after this many messages; nothing without a clip."""
        from fedveil.certificates import GaussianRelease

        law = self.checked_priors(values, priors)
        if self.clip is None:
            return ()
        channel = GaussianRelease(self.clip, self.deviation, releases, norm_enforced_at_release=True)
        certificates = (
            channel.certify_advantage(values),
            channel.certify_balanced_accuracy(values),
            channel.certify_accuracy(law),
        )
        not_covered = ("what the observer knew before: the bound is on what the release adds", *NOT_COVERED)
        return tuple(
            replace(
                certificate,
                assumptions={**certificate.assumptions, **self.covers()},
                does_not_cover=not_covered,
            )
            for certificate in certificates
        )
