"""Counts: the only statistics of people that leave a device when a map is fitted, optionally with Gaussian noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedveil.certificates.differential_privacy import gaussian_epsilon
from fedveil.core.arrays import FloatArray
from fedveil.core.errors import InputError


@dataclass(eq=False)
class Counts:
    """Sums over people of vectors of norm at most 1, each entry with N(0, noise²) added.

    Guarantee: adding or removing one person changes every answer by at most 1 in L2 norm. All k answers together are k
    Gaussian releases with noise multiplier `noise`; `epsilon(δ)` is exact for them (Balle and Wang 2018). A question
    about disjoint groups of people is one release.

    Attributes:
        noise: the standard deviation of the noise on each count; 0 for exact counts.
        rng: the noise's generator.
        releases: how many questions were answered.
    """

    noise: float
    rng: np.random.Generator
    releases: int = 0

    def __post_init__(self) -> None:
        if not 0.0 <= self.noise < float("inf"):
            raise InputError(f"transport: the counts' noise must not be negative, got {self.noise}")

    def record(self, questions: int = 1) -> None:
        """Record that every person contributed to this many more questions."""
        self.releases += questions

    def noised(self, sums: npt.ArrayLike) -> FloatArray:
        """Return sums with noise; the caller has recorded the question."""
        exact = np.asarray(sums, dtype=np.float64)
        return exact if self.noise == 0.0 else exact + self.rng.normal(0.0, self.noise, exact.shape)

    def epsilon(self, delta: float = 1e-5) -> float:
        """Return ε at δ of all answers so far, for adding or removing one person."""
        if self.noise == 0.0:
            return float("inf")
        return gaussian_epsilon(self.noise, delta, releases=max(self.releases, 1))


def shares(counts: FloatArray) -> FloatArray:
    """Return noisy counts as probabilities; negative counts are treated as 0.

    >>> shares(np.array([3.0, -1.0, 1.0]))
    array([0.75, 0.  , 0.25])
    """
    positive = np.maximum(counts, 0.0)
    total = positive.sum()
    return np.asarray(positive / total if total > 0 else np.full(len(counts), 1 / len(counts)), dtype=np.float64)
