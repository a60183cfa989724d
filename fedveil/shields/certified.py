"""The certified channel: clip a representation to ‖r‖ ≤ R, then add N(0, σ²I)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from fedveil.core.errors import InputError
from fedveil.shields.message import Context, Kind, Message
from fedveil.shields.shield import Shield

if TYPE_CHECKING:
    import numpy.typing as npt

    from fedveil.certificates import Certificate, GaussianRelease


@dataclass(frozen=True, eq=False, repr=False)
class CertifiedChannel(Shield):
    """Release r·min(1, R/‖r‖) + N(0, σ²I), once per person.

    Symbols: R the radius, σ the standard deviation of the noise, K the attribute's number of values.
    Guarantee: whatever the extractor learned, and even if it reads u, any attacker's advantage on a binary u is at
    most 2Φ(R/σ) − 1 (two clipped points differ by at most 2R; Neyman–Pearson); `release.certify_…` gives the
    bound for K values and priors. It covers one release per person and says nothing about weights,
    updates or outputs, which pass unchanged.

    Attributes:
        sigma: the standard deviation σ of the noise on each coordinate of a representation.
        radius: the norm R to which a representation is clipped before the noise is added.
    """

    name = "certified channel"
    acts_on = frozenset({Kind.REPRESENTATION})
    certifies = acts_on

    sigma: float
    radius: float = 1.0

    def __post_init__(self) -> None:
        if not (0 < self.sigma < float("inf") and 0 < self.radius < float("inf")):
            raise InputError(
                f"certified channel: sigma {self.sigma} and radius {self.radius} must be above 0 and finite"
            )

    @property
    def release(self) -> GaussianRelease:
        """The channel's certificates: `.certify_advantage(values)`, `.certify_accuracy(priors)`, …."""
        from fedveil.certificates import GaussianRelease  # takes half a second to import

        return GaussianRelease(radius=self.radius, sigma=self.sigma, norm_enforced_at_release=True)

    def certificates(self, values: int, priors: npt.ArrayLike) -> tuple[Certificate, ...]:
        """Certify advantage, balanced accuracy and accuracy on an attribute of K values with these priors."""
        number = len(np.asarray(priors))
        if number != values:
            raise InputError(f"certified channel: {number} priors for {values} values; give one for each")
        release = self.release
        return (
            release.certify_advantage(values),
            release.certify_balanced_accuracy(values),
            release.certify_accuracy(priors),
        )

    def change(self, message: Message, context: Context) -> Message:
        """Clip every row and add noise drawn from the device's generator."""
        rows = message.values.flatten(1)
        norms = rows.norm(dim=1, keepdim=True).clamp_min(1e-30)
        clipped = rows * (self.radius / norms).clamp_max(1.0)
        noise = torch.randn(rows.shape, generator=context.generator, dtype=torch.float64).to(rows.device, rows.dtype)
        return message.with_values((clipped + self.sigma * noise).view(message.values.shape))
