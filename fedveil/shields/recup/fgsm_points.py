"""Where FGSM stands: many updates that move, their features, and how slopes of features become steps of updates.

`DirectPoint` goes by autograd through any features. `PooledPoint` is for max-pooled magnitudes, where a step moves only
the largest entry of each pool: it keeps of every pool the few entries that can become its largest, and nothing else of
the updates is touched until the end. Both make the same steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

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
        """Return a step in coordinates that do not depend on where the point stands, (n, …)."""

    def add(self, step: Step) -> None:
        """Move."""

    def add_everywhere(self, amounts: Tensor) -> None:
        """Move by numbers in the coordinates of `spread`."""

    def mark(self) -> Any:
        """Return what `go_back` needs to come back here."""

    def go_back(self, mark: Any) -> None:
        """Undo all steps since a mark."""

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

    def mark(self) -> Tensor:
        """Return the updates."""
        return self.now

    def go_back(self, mark: Tensor) -> None:
        """Return to them."""
        self.now = mark

    def write(self, rows: Tensor, share: Tensor, bound: Tensor) -> None:
        """Add the change."""
        rows += share.to(rows) * torch.clamp(self.now - self.start, -bound.to(rows), bound.to(rows))


class PooledPoint:
    """Each pool's candidates, (pools, k): `top` says which of them is the largest now, and `value` what it is.

    `rest` is the size of the largest candidate beside the top. While the top stays above that, a step touches one
    number of a pool; only pools whose top has fallen below, or where another entry moved, are looked through again.
    """

    def __init__(self, entries: Entries) -> None:
        self.entries = entries
        self.values: Tensor = entries.values.flatten(0, 1).clone()
        self.shape = entries.values.shape[:2]
        self.top = torch.zeros(len(self.values), dtype=torch.int64, device=self.values.device)
        self.value = self.values[:, 0].clone()
        self.rest = self.values[:, 1].abs() if self.values.shape[1] > 1 else torch.zeros_like(self.value)
        self.undo: list[tuple[Tensor, Tensor]] = []

    @classmethod
    def of(cls, updates: Tensor, segments: Sequence[Segment], depth: int) -> PooledPoint:
        """Begin at updates; `depth` is how many entries of one pool can ever be its largest."""
        return cls(entries_of(updates, segments, depth))

    def features(self) -> Tensor:
        """Return each pool's largest magnitude."""
        return self.value.abs().view(self.shape)

    def gradient(self, slopes: Tensor) -> Step:
        """Return the slopes with the signs of the largest entries, which alone they reach."""
        return Step(slopes.to(self.value) * self.value.sign().view(self.shape), self.top)

    def spread(self, step: Step) -> Tensor:
        """Return the step in all candidates."""
        assert step.places is not None
        found = torch.zeros_like(self.values).scatter_(1, step.places[:, None], step.amounts.view(-1, 1))
        return found.view(len(step.amounts), -1)

    def add(self, step: Step) -> None:
        """Move: at once where it is the tops that move and stay on top."""
        assert step.places is not None
        amounts = step.amounts.reshape(-1)
        if step.places is self.top:
            self.value = self.value + amounts
            self._look_through((self.value.abs() < self.rest).nonzero()[:, 0])
            return
        others = (step.places != self.top) & (amounts != 0)
        self.value = torch.where(others, self.value, self.value + amounts)
        moved = others.nonzero()[:, 0]
        self._write(moved, step.places[moved], amounts[moved])
        self._look_through((others | (self.value.abs() < self.rest)).nonzero()[:, 0])

    def add_everywhere(self, amounts: Tensor) -> None:
        """Move all candidates."""
        every = torch.arange(len(self.top), device=self.top.device)
        self._write(every, self.top, self.value - self.values.gather(1, self.top[:, None])[:, 0])
        for place, own in enumerate(amounts.reshape(self.values.shape).unbind(1)):
            self._write(every, torch.full_like(self.top, place), own)
        self.value = self.values.gather(1, self.top[:, None])[:, 0]
        self._look_through(every)

    def _write(self, pools: Tensor, places: Tensor, amounts: Tensor) -> None:
        """Add to candidates, and remember how they were."""
        flat = pools * self.values.shape[1] + places
        self._put(flat, self.values.view(-1).index_select(0, flat) + amounts)

    def _put(self, flat: Tensor, numbers: Tensor) -> None:
        every = self.values.view(-1)
        self.undo.append((flat, every.index_select(0, flat)))
        every.scatter_(0, flat, numbers)

    def _look_through(self, pools: Tensor) -> None:
        """Find the largest candidates of some pools anew."""
        if not len(pools):
            return
        first = pools * self.values.shape[1]
        self._put(first + self.top.index_select(0, pools), self.value.index_select(0, pools))
        best, size, rest = _two_largest(self.values.index_select(0, pools))
        value = torch.copysign(size, self.values.view(-1).index_select(0, first + best))
        self.top = self.top.scatter(0, pools, best)  # steps and marks hold the former ones
        self.value = self.value.scatter(0, pools, value)
        self.rest = self.rest.scatter(0, pools, rest)

    def mark(self) -> tuple[Tensor, Tensor, Tensor, int]:
        """Return the tops, and how much has been written."""
        return self.top, self.value, self.rest, len(self.undo)

    def go_back(self, mark: tuple[Tensor, Tensor, Tensor, int]) -> None:
        """Undo what was written since."""
        self.top, self.value, self.rest, count = mark
        while len(self.undo) > count:
            flat, before = self.undo.pop()
            self.values.view(-1).scatter_(0, flat, before)

    def write(self, rows: Tensor, share: Tensor, bound: Tensor) -> None:
        """Put the candidates' changes where they stand in the updates."""
        self.values.scatter_(1, self.top[:, None], self.value[:, None])
        start = self.entries.values.flatten(0, 1)
        changed = (self.values != start).view(-1).nonzero()[:, 0]
        clients, columns = self.entries.standing(changed)
        limit = bound.to(rows)[clients, 0]
        change = (self.values.view(-1)[changed] - start.reshape(-1)[changed]).clamp(-limit, limit)
        rows.view(-1).index_add_(0, clients * rows.shape[1] + columns, change * share.to(rows)[clients, 0])


def _two_largest(rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return which entry of each row is the largest in magnitude, how large it is, and how large the next one.

    By running maxima over the few columns: torch's own reductions over rows as short as these take ten times as long.
    """
    columns = rows.abs().T.contiguous()
    size, rest = columns[0].clone(), torch.zeros_like(columns[0])
    best = torch.zeros(len(rows), dtype=torch.int64, device=rows.device)
    for place, other in enumerate(columns[1:], start=1):
        best.masked_fill_(other > size, place)
        torch.maximum(rest, torch.minimum(size, other), out=rest)
        torch.maximum(size, other, out=size)
    return best, size, rest
