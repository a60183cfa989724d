"""Steps through max-pooled magnitudes (Melis pooling), where a step moves only the largest entry of each pool.

Of every pool only the few entries that can become its largest are kept (`entries_of`); the rest of the updates is not
touched until the end. `PooledPoint` makes the same steps as `DirectPoint` in `fgsm`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from fedveil.core.errors import InputError
from fedveil.shields.recup.fgsm import Step
from fedveil.updates.features import LARGE
from fedveil.updates.segments import Segment, checked

_NUMBERS = 2**22
"""How many numbers are sorted at a time."""

_MANY = 64
"""In pools of at least this many members it saves time to look for members that are 0 in all pools."""


@dataclass(frozen=True)
class Pooled:
    """One tensor's pools. A pool's members are numbered by output, then by position in the window.

    Attributes:
        segment: the tensor.
        outputs: how many outputs a pool covers: all of a large tensor, otherwise 1.
        window: how many positions of a convolution's window it covers; 1 for a fully connected layer.
    """

    segment: Segment
    outputs: int
    window: int

    @property
    def members(self) -> int:
        """The number of entries in a pool."""
        return self.outputs * self.window

    @property
    def pools(self) -> int:
        """The number of pools: one feature each."""
        return (self.segment.stop - self.segment.start) // max(1, self.members)

    def of(self, updates: Tensor) -> Tensor:
        """Return (n, members, pools) of some updates; a view if the numbers already lie in that order."""
        tensor = updates[:, self.segment.start : self.segment.stop].view(len(updates), self.outputs, -1, self.window)
        return tensor.transpose(2, 3).reshape(len(updates), self.members, self.pools)

    def first(self) -> Tensor:
        """Return the column of each pool's first member."""
        return self.segment.start + self.window * torch.arange(self.pools)


@lru_cache(maxsize=8)
def pools_of(segments: tuple[Segment, ...]) -> tuple[Pooled, ...]:
    """Return every tensor's pools, in the order of the features "max"."""
    pools = []
    for segment in segments:
        if segment.statistic or len(segment.shape) < 2:
            continue
        inputs = segment.shape[0] * segment.shape[1]
        if len(segment.shape) == 2:
            pools.append(Pooled(segment, segment.shape[0] if inputs > LARGE else 1, 1))
        else:
            window = (segment.stop - segment.start) // inputs
            pools.append(Pooled(segment, segment.shape[0] if inputs > LARGE else 1, window))
    if not pools:
        raise InputError("updates: these players have no tensors that 'max' reads; choose others")
    return tuple(pools)


@dataclass(frozen=True, eq=False)
class Entries:
    """The k largest entries of each pool, largest first, of n updates with f pools.

    Attributes:
        values: (n, f, k); 0 if a pool has fewer than k entries.
        members: (n, f, k), the number of each entry within its pool.
        pools: the pools of the updates' tensors.
    """

    values: Tensor
    members: Tensor
    pools: tuple[Pooled, ...]

    def standing(self, flat: Tensor) -> tuple[Tensor, Tensor]:
        """Return the rows and columns of entries in the updates, from flat indices into `values`."""
        count, depth = self.values.shape[1:]
        pool = flat // depth % count
        sizes = torch.tensor([pooled.pools for pooled in self.pools])
        first = torch.cat([pooled.first() for pooled in self.pools]).to(flat.device)
        window, jump = (
            torch.tensor(numbers).repeat_interleave(sizes).to(flat.device)
            for numbers in (
                [pooled.window for pooled in self.pools],
                [pooled.window * pooled.pools for pooled in self.pools],
            )
        )
        member = self.members.view(-1)[flat].long()
        columns = first[pool] + member // window[pool] * jump[pool] + member % window[pool]
        return flat // (depth * count), columns


def entries_of(updates: Tensor, segments: Sequence[Segment], depth: int) -> Entries:
    """Return the entries that can become the largest of their pool while at most `depth` − 1 entries change."""
    checked(updates, segments)
    pools = pools_of(tuple(segments))
    depth = min(depth, max(pooled.members for pooled in pools))
    total = sum(pooled.pools for pooled in pools)
    values = updates.new_zeros(len(updates), total, depth)
    members = torch.zeros(len(updates), total, depth, dtype=torch.int32, device=updates.device)
    start = 0
    for pooled in pools:
        count = min(depth, pooled.members)
        columns = slice(start, start + pooled.pools)
        at_once = max(1, _NUMBERS // max(1, pooled.members * pooled.pools))
        for first in range(0, len(updates), at_once):
            part = pooled.of(updates[first : first + at_once])
            rows = slice(first, first + len(part))
            if pooled.members == 1:
                values[rows, columns, 0] = part[:, 0]
                continue
            if pooled.members >= _MANY:
                for row, entries in enumerate(part, start=first):
                    _among_live(entries, values[row, columns], members[row, columns])
                continue
            chosen = part.abs().topk(count, dim=1).indices
            values[rows, columns, :count] = part.gather(1, chosen).transpose(1, 2)
            members[rows, columns, :count] = chosen.transpose(1, 2)
        start += pooled.pools
    return Entries(values, members, pools)


def _among_live(entries: Tensor, values: Tensor, members: Tensor) -> None:
    """Write one update's largest entries, of (members, pools), to (pools, k).

    Dead units leave whole rows and columns of a gradient at 0. A 0 never moves and is never a pool's largest entry
    unless all entries are 0, so only the others have to be sorted.
    """
    sizes = entries.abs()
    rows, columns = ((sizes.amax(dim=dim) > 0).nonzero()[:, 0] for dim in (1, 0))
    if not len(columns):
        return
    live = sizes.index_select(0, rows).index_select(1, columns)
    best = live.topk(min(values.shape[1], len(rows)), dim=0).indices
    chosen = rows[best]
    values[columns, : len(best)] = entries[chosen, columns].T
    members[columns, : len(best)] = chosen.T.to(members.dtype)


class PooledPoint:
    """Each pool's candidates, (pools, k): `top` says which of them is currently the largest, and `value` its number.

    `rest` is the size of the largest candidate other than the top. While the top stays above it, a step touches one
    number of a pool; only pools whose top has fallen below it, or in which another entry moved, are searched again.
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
        """Start at some updates; `depth` is how many entries of one pool can ever be its largest."""
        return cls(entries_of(updates, segments, depth))

    def features(self) -> Tensor:
        """Return each pool's largest magnitude."""
        return self.value.abs().view(self.shape)

    def gradient(self, slopes: Tensor) -> Step:
        """Return the slopes with the signs of the largest entries, the only ones they reach."""
        return Step(slopes.to(self.value) * self.value.sign().view(self.shape), self.top)

    def spread(self, step: Step) -> Tensor:
        """Return the step in all candidates."""
        assert step.entries is not None
        amounts = torch.zeros_like(self.values).scatter_(1, step.entries[:, None], step.amounts.view(-1, 1))
        return amounts.view(len(step.amounts), -1)

    def add(self, step: Step) -> None:
        """Move by a step; this is quick if only the tops move and remain on top."""
        assert step.entries is not None
        amounts = step.amounts.reshape(-1)
        if step.entries is self.top:
            self.value = self.value + amounts
            self._search((self.value.abs() < self.rest).nonzero()[:, 0])
            return
        others = (step.entries != self.top) & (amounts != 0)
        self.value = torch.where(others, self.value, self.value + amounts)
        moved = others.nonzero()[:, 0]
        self._add_to(moved, step.entries[moved], amounts[moved])
        self._search((others | (self.value.abs() < self.rest)).nonzero()[:, 0])

    def add_everywhere(self, amounts: Tensor) -> None:
        """Move all candidates."""
        every = torch.arange(len(self.top), device=self.top.device)
        self._add_to(every, self.top, self.value - self.values.gather(1, self.top[:, None])[:, 0])
        for candidate, column in enumerate(amounts.reshape(self.values.shape).unbind(1)):
            self._add_to(every, torch.full_like(self.top, candidate), column)
        self.value = self.values.gather(1, self.top[:, None])[:, 0]
        self._search(every)

    def _add_to(self, pools: Tensor, candidates: Tensor, amounts: Tensor) -> None:
        """Add to candidates, and remember their old numbers."""
        flat = pools * self.values.shape[1] + candidates
        self._put(flat, self.values.view(-1).index_select(0, flat) + amounts)

    def _put(self, flat: Tensor, numbers: Tensor) -> None:
        every = self.values.view(-1)
        self.undo.append((flat, every.index_select(0, flat)))
        every.scatter_(0, flat, numbers)

    def _search(self, pools: Tensor) -> None:
        """Find the largest candidates of some pools again."""
        if not len(pools):
            return
        first = pools * self.values.shape[1]
        self._put(first + self.top.index_select(0, pools), self.value.index_select(0, pools))
        best, size, rest = _two_largest(self.values.index_select(0, pools))
        value = torch.copysign(size, self.values.view(-1).index_select(0, first + best))
        self.top = self.top.scatter(0, pools, best)  # not in place: steps and marks refer to the old tops
        self.value = self.value.scatter(0, pools, value)
        self.rest = self.rest.scatter(0, pools, rest)

    def mark(self) -> tuple[Tensor, Tensor, Tensor, int]:
        """Return the tops, and how much has been written."""
        return self.top, self.value, self.rest, len(self.undo)

    def go_back(self, mark: tuple[Tensor, Tensor, Tensor, int]) -> None:
        """Undo what was written since the mark."""
        self.top, self.value, self.rest, count = mark
        while len(self.undo) > count:
            flat, before = self.undo.pop()
            self.values.view(-1).scatter_(0, flat, before)

    def write(self, rows: Tensor, share: Tensor, bound: Tensor) -> None:
        """Write the candidates' changes to their positions in the updates."""
        self.values.scatter_(1, self.top[:, None], self.value[:, None])
        start = self.entries.values.flatten(0, 1)
        changed = (self.values != start).view(-1).nonzero()[:, 0]
        devices, columns = self.entries.standing(changed)
        limit = bound.to(rows)[devices, 0]
        change = (self.values.view(-1)[changed] - start.reshape(-1)[changed]).clamp(-limit, limit)
        rows.view(-1).index_add_(0, devices * rows.shape[1] + columns, change * share.to(rows)[devices, 0])


def _two_largest(rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return which entry of each row is the largest in magnitude, how large it is, and how large the next one is.

    It takes running maxima over the few columns: torch's reductions over rows as short as these take ten times as long.
    """
    columns = rows.abs().T.contiguous()
    size, rest = columns[0].clone(), torch.zeros_like(columns[0])
    best = torch.zeros(len(rows), dtype=torch.int64, device=rows.device)
    for index, other in enumerate(columns[1:], start=1):
        best.masked_fill_(other > size, index)
        torch.maximum(rest, torch.minimum(size, other), out=rest)
        torch.maximum(size, other, out=size)
    return best, size, rest
