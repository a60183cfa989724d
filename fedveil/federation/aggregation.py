"""How the server combines the devices' updates: (devices, size) in, (size,) out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from fedveil.core.errors import InputError


class Aggregator(ABC):
    """Combines updates; `weights` are the devices' numbers of records."""

    needs: int = 1
    """The smallest number of devices that it can combine."""

    @abstractmethod
    def combine(self, updates: Tensor, weights: Tensor) -> Tensor:
        """Return the update that the server applies."""

    def __call__(self, updates: Tensor, weights: Tensor) -> Tensor:
        """Check that there are enough devices, then combine."""
        if len(updates) < self.needs:
            raise InputError(
                f"{type(self).__name__} needs at least {self.needs} devices in a round, but {len(updates)} answered; "
                f"sample more, or choose another aggregation"
            )
        return self.combine(updates, weights)


@dataclass(frozen=True)
class WeightedMean(Aggregator):
    """Σ n_i Δ_i / Σ n_i (FedAvg, McMahan et al. 2017)."""

    def combine(self, updates: Tensor, weights: Tensor) -> Tensor:
        """Average by number of records."""
        shares = weights.to(updates.dtype)
        return (shares / shares.sum()) @ updates


@dataclass(frozen=True)
class Mean(Aggregator):
    """The plain mean: every device counts equally."""

    def combine(self, updates: Tensor, weights: Tensor) -> Tensor:
        """Average."""
        return updates.mean(dim=0)


@dataclass(frozen=True)
class Median(Aggregator):
    """The coordinate-wise median (Yin et al. 2018); the mean of the middle two if the number of devices is even."""

    def combine(self, updates: Tensor, weights: Tensor) -> Tensor:
        """Take the middle of every coordinate."""
        ordered = updates.sort(dim=0).values
        middle = len(updates) // 2
        return ordered[middle] if len(updates) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


@dataclass(frozen=True)
class TrimmedMean(Aggregator):
    """The mean of every coordinate without its `trim` smallest and largest values (Yin et al. 2018).

    Attributes:
        trim: how many values are left out at either end of each coordinate.
    """

    trim: int = 1

    def __post_init__(self) -> None:
        if self.trim < 0:
            raise InputError(f"trimmed mean: trim must not be negative, got {self.trim}")

    @property
    def needs(self) -> int:  # type: ignore[override]
        """At least one value must remain in the middle."""
        return 2 * self.trim + 1

    def combine(self, updates: Tensor, weights: Tensor) -> Tensor:
        """Drop the extremes of every coordinate and average the rest."""
        return updates.sort(dim=0).values[self.trim : len(updates) - self.trim].mean(dim=0)


@dataclass(frozen=True)
class Krum(Aggregator):
    """The update closest to its n − f − 2 nearest ones (Blanchard et al. 2017), where f of n devices are hostile.

    With `keep` above 1 it is the mean of that many best updates (multi-Krum).

    Attributes:
        hostile: how many hostile devices f to expect in a round.
        keep: how many of the best updates are averaged.
    """

    hostile: int = 0
    keep: int = 1

    def __post_init__(self) -> None:
        if self.hostile < 0 or self.keep < 1:
            raise InputError(f"Krum: hostile {self.hostile} must not be negative, keep {self.keep} at least 1")

    @property
    def needs(self) -> int:  # type: ignore[override]
        """n ≥ 2f + 3, for the guarantee and for a neighbour to exist."""
        return max(2 * self.hostile + 3, self.keep)

    def combine(self, updates: Tensor, weights: Tensor) -> Tensor:
        """Score every update by its nearest neighbours."""
        # Not by ‖a‖² + ‖b‖² − 2a·b, which loses all digits of the distance between updates that are almost equal.
        distances = torch.cdist(updates, updates, compute_mode="donot_use_mm_for_euclid_dist").square()
        distances.fill_diagonal_(float("inf"))
        near = len(updates) - self.hostile - 2
        scores = distances.sort(dim=1).values[:, :near].sum(dim=1)
        return updates[scores.argsort(stable=True)[: self.keep]].mean(dim=0)


@dataclass(frozen=True)
class MaskedMean(Aggregator):
    """The weighted mean of every coordinate over the devices that sent it: an exact zero counts as not sent.

    For compressed models, whose devices send only some of their parameters.
    """

    def combine(self, updates: Tensor, weights: Tensor) -> Tensor:
        """Average each coordinate over its senders; what no device sent does not change."""
        sent = (updates != 0).to(updates.dtype) * weights.to(updates.dtype).unsqueeze(1)
        total = sent.sum(dim=0)
        return torch.where(total > 0, (updates * sent).sum(dim=0) / total.clamp_min(1e-12), 0)
