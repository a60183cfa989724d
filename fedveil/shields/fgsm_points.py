"""Where FGSM stands: many updates that move, their features, and how slopes of features become steps of updates.

`DirectPoint` goes by autograd through any features. `PooledPoint` is for max-pooled magnitudes, where a step moves only
the largest entry of each pool: it keeps of every pool the few entries that can become its largest, and nothing else of
the updates is touched until the end. Both make the same steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from fedveil.shields.pool_entries import Entries, entries_of
from fedveil.updates.features import features
from fedveil.updates.segments import Segment


@dataclass(frozen=True, eq=False)
class Step:
    """Numbers to add to updates: (n, d) to all entries, or (n, f) to one entry of each pool, whose places are given."""

    amounts: Tensor
    places: Tensor | None = None

    def signs(self, size: Tensor) -> Step:
        """Return ±size, (n, 1), in the direction of each number; 0 stays 0."""
        return replace(self, amounts=self.amounts.sign() * size.to(self.amounts))


class Point(Protocol):
    """Updates on their way."""

    def features(self) -> Tensor:
        """Return (n, f) features as they are now."""

    def gradient(self, slopes: Tensor) -> Step:
        """Return the gradient in the updates' own entries of what has these (n, f) slopes in the features."""

    def spread(self, step: Step) -> Tensor:
        """Return a step in coordinates that do not depend on where the point stands."""

    def add(self, step: Step) -> None:
        """Move."""

    def add_everywhere(self, amounts: Tensor) -> None:
        """Move by numbers in the coordinates of `spread`."""

    def copy(self) -> Point:
        """Return a point that moves by itself."""

    def write(self, rows: Tensor, share: Tensor, bound: Tensor) -> None:
        """Add share · (this point − its start), (n, 1), to rows, each number's change cut to ±bound, (n, 1)."""


class DirectPoint:
    """The updates themselves, and autograd; for any features, and the reference for the other kind."""

    def __init__(self, updates: Tensor, segments: Sequence[Segment], how: str) -> None:
        self.start, self.now, self.segments, self.how = updates, updates, segments, how

    def features(self) -> Tensor:
        """Return the features."""
        return features(self.now, self.segments, self.how)

    def gradient(self, slopes: Tensor) -> Step:
        """Differentiate."""
        with torch.enable_grad():
            now = self.now.detach().requires_grad_(True)
            found = features(now, self.segments, self.how)
            (gradient,) = torch.autograd.grad(found, now, slopes.to(found))
        return Step(gradient)

    def spread(self, step: Step) -> Tensor:
        """Return the step's own numbers."""
        return step.amounts

    def add(self, step: Step) -> None:
        """Move."""
        self.now = self.now + step.amounts

    def add_everywhere(self, amounts: Tensor) -> None:
        """Move."""
        self.now = self.now + amounts

    def copy(self) -> DirectPoint:
        """Return another."""
        other = DirectPoint(self.start, self.segments, self.how)
        other.now = self.now
        return other

    def write(self, rows: Tensor, share: Tensor, bound: Tensor) -> None:
        """Add the change."""
        rows += share.to(rows) * torch.clamp(self.now - self.start, -bound.to(rows), bound.to(rows))


class PooledPoint:
    """Each pool's candidates, (k, n, f): `top` says which of them is the largest, and `value` what it is now.

    `rest` is the size of the largest candidate beside it. While the top stays above that, a step touches n·f numbers;
    only pools whose top has fallen below are looked through again.
    """

    def __init__(self, entries: Entries) -> None:
        self.entries = entries
        self.values = entries.values
        self.own = False  # whether `values` may be written to
        self.top: Tensor
        self.value: Tensor
        self.rest: Tensor
        self._look_through()

    @classmethod
    def of(cls, updates: Tensor, segments: Sequence[Segment], depth: int) -> PooledPoint:
        """Begin at updates; `depth` is how many entries of one pool can ever be its largest."""
        return cls(entries_of(updates, segments, depth))

    def _look_through(self) -> None:
        """Find the largest of all candidates anew."""
        sizes = self.values.abs()
        largest = sizes.max(dim=0)
        self.top = largest.indices
        self.value = self.values.gather(0, self.top[None])[0]
        self.rest = sizes.scatter_(0, self.top[None], 0.0).amax(dim=0)

    def features(self) -> Tensor:
        """Return each pool's largest magnitude."""
        return self.value.abs()

    def gradient(self, slopes: Tensor) -> Step:
        """Return the slopes with the signs of the largest entries, which alone they reach."""
        return Step(slopes.to(self.value) * self.value.sign(), self.top)

    def spread(self, step: Step) -> Tensor:
        """Return the step in all candidates."""
        assert step.places is not None
        return torch.zeros_like(self.values).scatter_(0, step.places[None], step.amounts[None])

    def add(self, step: Step) -> None:
        """Move: quickly where it is the tops that move, which a step that this point gave does."""
        assert step.places is not None
        if step.places is not self.top:
            self._settle()
            self.values.scatter_add_(0, step.places[None], step.amounts[None])
            self._look_through()
            return
        self.value = self.value + step.amounts
        fallen = (self.value.abs() < self.rest).view(-1).nonzero()[:, 0]
        if not len(fallen):
            return
        self._make_own()
        pools = self.values.shape[1:].numel()
        every = self.values.view(len(self.values), pools)
        top, value, rest = self.top.clone().view(-1), self.value.view(-1), self.rest.clone().view(-1)
        every[top[fallen], fallen] = value[fallen]
        own = every[:, fallen]
        sizes = own.abs()
        best = sizes.max(dim=0).indices
        top[fallen] = best
        value[fallen] = own.gather(0, best[None])[0]
        rest[fallen] = sizes.scatter_(0, best[None], 0.0).amax(dim=0)
        self.top, self.rest = top.view_as(self.top), rest.view_as(self.rest)

    def add_everywhere(self, amounts: Tensor) -> None:
        """Move all candidates."""
        self._settle()
        self.values = self.values + amounts
        self._look_through()

    def _make_own(self) -> None:
        if not self.own:
            self.values, self.own = self.values.clone(), True

    def _settle(self) -> None:
        """Write the tops' values to their candidates."""
        self._make_own()
        self.values.scatter_(0, self.top[None], self.value[None])

    def copy(self) -> PooledPoint:
        """Return another; candidates are shared until one of the two writes to them."""
        other: PooledPoint = PooledPoint.__new__(PooledPoint)
        other.__dict__.update(self.__dict__)
        other.own = self.own = False
        return other

    def write(self, rows: Tensor, share: Tensor, bound: Tensor) -> None:
        """Scatter the candidates' changes to where they stand in the updates."""
        self._settle()
        limit = bound.to(rows)
        change = (self.values - self.entries.values).clamp_(-limit, limit).mul_(share.to(rows))
        for own, columns in zip(change, self.entries.columns, strict=True):
            rows.scatter_add_(1, columns, own)
