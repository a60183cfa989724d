"""DP-Laplace: clip in L1 (or, as is common, in L2) and add Laplace noise, with the ε that this really spends."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from torch import Tensor

from fedveil.certificates.differential_privacy import composed_epsilon
from fedveil.core.errors import InputError
from fedveil.shields.dp.noise import NOT_COVERED, NoiseShield, Place, count, one_of, unbounded

if TYPE_CHECKING:
    import numpy.typing as npt

    from fedveil.certificates import Certificate


class DPLaplace(NoiseShield):
    """Send v·min(1, B/‖v‖) + Laplace(b) in every coordinate.

    Symbols: v a message's row of d numbers, B the clip, b the noise's scale, k the number of releases.
    Guarantee: clipped in L1, two messages are at most 2B apart in L1, so that one release has ε₀ = 2B/b in the local
    model, δ = 0; k releases cost k·ε₀, or less at a δ > 0 (Kairouz, Oh and Viswanath 2015). Any attacker's advantage
    on a binary attribute is at most (e^ε − 1)/(e^ε + 1). Sampling devices gains nothing: the server sees whom it
    sampled.
    Where the papers' form fails: clipped in L2 (`clipped_in="L2"`), messages may be 2B√d apart in L1, so ε₀ = 2B√d/b,
    and d must be given; unclipped (`clip=None`), ε is infinite for every b.

    Attributes:
        scale: the noise's scale b (its standard deviation is b√2); or give epsilon.
        clip: the norm B to which a message is clipped; null (None) for no clipping, as in the papers.
        place: what noise is added to: the update, each input, or each representation (also called last-layer).
        clipped_in: the norm in which a message is clipped.
        epsilon: choose the scale whose ε over `releases` rounds is this (δ = 0).
        releases: the most rounds in which a device sends an update; 1 for inputs and representations.
        dimensions: a message's length d, for a clip in L2; a message of another length is not sent.
    """

    name = "DP-Laplace"

    def __init__(
        self,
        scale: float | None = None,
        clip: float | None = 1.0,
        place: Place = "update",
        clipped_in: Literal["L1", "L2"] = "L1",
        epsilon: float | None = None,
        releases: int = 1,
        dimensions: int | None = None,
    ) -> None:
        super().__init__(clip, place)
        one_of(self.name, "scale", scale, epsilon, clip)
        if clipped_in not in ("L1", "L2"):
            raise InputError(f"{self.name}: clipped_in must be L1 or L2, got {clipped_in!r}")
        if dimensions is not None and dimensions < 1:
            raise InputError(f"{self.name}: dimensions must be at least 1, got {dimensions}")
        self.clipped_in, self.dimensions = clipped_in, dimensions
        self.epsilon, self.releases = epsilon, count(self.name, releases)
        self.order = 1.0 if clipped_in == "L1" else 2.0
        self.scale = float(scale) if scale is not None else self._calibrated()
        if not self._bounded:
            self.certifies = frozenset()

    @property
    def _bounded(self) -> bool:
        return self.clip is not None and (self.clipped_in == "L1" or self.dimensions is not None)

    def _calibrated(self) -> float:
        assert self.epsilon is not None
        if not 0 < self.epsilon < float("inf"):
            raise InputError(f"{self.name}: epsilon {self.epsilon} cannot be reached; it must be above 0 and finite")
        return self._at_scale(1.0) * max(1, self.releases) / self.epsilon

    def _at_scale(self, scale: float) -> float:
        from fedveil.certificates import laplace_epsilon

        assert self.clip is not None
        if self.clipped_in == "L2" and self.dimensions is None:
            raise InputError(f"{self.name}: a clip in L2 has an epsilon of 2B√d/b: give dimensions, d, or clip in L1")
        return laplace_epsilon(scale, self.clip, clipped_in=self.clipped_in, dimensions=self.dimensions or 1)

    def noise(self, shape: torch.Size, generator: torch.Generator) -> Tensor:
        """Draw Laplace(b) for every coordinate: the difference of two exponential draws."""
        first, second = (torch.empty(shape, dtype=torch.float64).exponential_(generator=generator) for _ in range(2))
        return self.scale * (first - second)

    def clipped(self, rows: Tensor) -> Tensor:
        """Clip; a message is not sent if its length is not the one that ε was computed for."""
        if self.dimensions is not None and rows.shape[1] != self.dimensions:
            raise InputError(f"{self.name}: a message has {rows.shape[1]} numbers, but dimensions={self.dimensions}")
        return super().clipped(rows)

    def spent(self, releases: int | None = None, delta: float = 0.0) -> Certificate:
        """Return the (ε, δ) that one device has spent after this many messages; ε = ∞ if they are not clipped."""
        from fedveil.certificates import Certificate

        if self.clip is None:
            return unbounded(self.name, "scale", self.scale)
        messages = count(self.name, self.releases if releases is None else releases)
        return Certificate(
            quantity="epsilon",
            bound=composed_epsilon(self._at_scale(self.scale), messages, delta),
            direction="upper",
            assumptions={
                "delta": delta,
                f"clip ({self.clipped_in})": self.clip,
                "scale": self.scale,
                "dimensions": self.dimensions if self.clipped_in == "L2" else "any",
                "releases": messages,
                "neighbours": "any two clipped messages (local model)",
                "sampling": "not counted: the server sees whom it sampled",
                **self.covers(),
            },
            does_not_cover=NOT_COVERED,
            method="pure ε of Laplace noise, composed over the releases",
            citation="Dwork, McSherry, Nissim and Smith 2006; Kairouz, Oh and Viswanath 2015",
        )

    def certificates_over(self, releases: int, values: int, priors: npt.ArrayLike) -> tuple[Certificate, ...]:
        """Certify advantage, balanced accuracy and accuracy after this many messages; nothing without a bound."""
        from fedveil.certificates import advantage_from_balanced_accuracy, certify_accuracy_from_dp

        checked_priors = self.checked_priors(values, priors)
        if not self._bounded:
            return ()
        spent = self.spent(releases)

        def certified(law: npt.NDArray[np.float64]) -> Certificate:
            protects = str(self.covers()["covered messages"])
            certificate = certify_accuracy_from_dp(spent.bound, 0.0, law, protects=protects)
            return replace(
                certificate,
                assumptions={**spent.assumptions, **certificate.assumptions},
                does_not_cover=("what the observer knew before", *NOT_COVERED),
            )

        balanced = replace(certified(np.full(values, 1 / values)), quantity="balanced accuracy")
        bound = advantage_from_balanced_accuracy(balanced.bound, values)
        return replace(balanced, quantity="advantage", bound=bound), balanced, certified(checked_priors)
