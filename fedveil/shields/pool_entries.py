"""Which entries of an update can ever be the largest of their pool (Melis pooling), and where they stand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from fedveil.core.errors import InputError
from fedveil.updates.features import LARGE
from fedveil.updates.segments import Segment, checked

_NUMBERS = 2**22
"""How many numbers are sorted out at a time."""

_MANY = 64
"""Pools of so many members are worth a look at which of them are 0 in all pools."""


@dataclass(frozen=True)
class Pooled:
    """One tensor's pools. A pool's members are numbered (output, place in the window), as far as it has these.

    Attributes:
        segment: the tensor.
        outputs: how many outputs a pool reaches over: all of a large tensor, else 1.
        window: how many places of a convolution's window it reaches over; 1 for a fully connected layer.
    """

    segment: Segment
    outputs: int
    window: int

    @property
    def members(self) -> int:
        """How many entries a pool has."""
        return self.outputs * self.window

    @property
    def pools(self) -> int:
        """How many pools there are: one feature each."""
        return (self.segment.stop - self.segment.start) // max(1, self.members)

    def of(self, updates: Tensor) -> Tensor:
        """Return (n, members, pools) of some updates; the same numbers where they lie so already."""
        own = updates[:, self.segment.start : self.segment.stop].view(len(updates), self.outputs, -1, self.window)
        return own.transpose(2, 3).reshape(len(updates), self.members, self.pools)

    def first(self) -> Tensor:
        """Return where each pool's first member stands."""
        return self.segment.start + self.window * torch.arange(self.pools)


@lru_cache(maxsize=8)
def pools_of(segments: tuple[Segment, ...]) -> tuple[Pooled, ...]:
    """Return every tensor's pools, in the order of the features "max"."""
    found = []
    for segment in segments:
        if segment.statistic or len(segment.shape) < 2:
            continue
        inputs = segment.shape[0] * segment.shape[1]
        if len(segment.shape) == 2:
            found.append(Pooled(segment, segment.shape[0] if inputs > LARGE else 1, 1))
        else:
            window = (segment.stop - segment.start) // inputs
            found.append(Pooled(segment, segment.shape[0] if inputs > LARGE else 1, window))
    if not found:
        raise InputError("updates: these players have no tensors that 'max' reads; choose others")
    return tuple(found)


@dataclass(frozen=True, eq=False)
class Entries:
    """The k largest entries of each pool, largest first, of n updates with f pools.

    Attributes:
        values: (n, f, k); 0 where a pool has fewer than k entries.
        members: (n, f, k) which member of its pool each is.
        pools: of the updates' tensors.
    """

    values: Tensor
    members: Tensor
    pools: tuple[Pooled, ...]

    def standing(self, flat: Tensor) -> tuple[Tensor, Tensor]:
        """Return whose entries some of these are, and in which columns of the update they stand."""
        count, kept = self.values.shape[1:]
        place = flat // kept % count
        sizes = torch.tensor([own.pools for own in self.pools])
        first = torch.cat([own.first() for own in self.pools]).to(flat.device)
        window, jump = (
            torch.tensor(numbers).repeat_interleave(sizes).to(flat.device)
            for numbers in ([own.window for own in self.pools], [own.window * own.pools for own in self.pools])
        )
        member = self.members.view(-1)[flat].long()
        columns = first[place] + member // window[place] * jump[place] + member % window[place]
        return flat // (kept * count), columns


def entries_of(updates: Tensor, segments: Sequence[Segment], depth: int) -> Entries:
    """Find the entries that can become the largest of their pool while at most `depth` − 1 of it are changed."""
    checked(updates, segments)
    pools = pools_of(tuple(segments))
    depth = min(depth, max(own.members for own in pools))
    total = sum(own.pools for own in pools)
    values = updates.new_zeros(len(updates), total, depth)
    members = torch.zeros(len(updates), total, depth, dtype=torch.int32, device=updates.device)
    place = 0
    for own in pools:
        kept = min(depth, own.members)
        there = slice(place, place + own.pools)
        at_once = max(1, _NUMBERS // max(1, own.members * own.pools))
        for first in range(0, len(updates), at_once):
            part = own.of(updates[first : first + at_once])
            rows = slice(first, first + len(part))
            if own.members == 1:
                values[rows, there, 0] = part[:, 0]
                continue
            if own.members >= _MANY:
                for row, entries in enumerate(part, start=first):
                    _among_live(entries, values[row, there], members[row, there])
                continue
            chosen = part.abs().topk(kept, dim=1).indices
            values[rows, there, :kept] = part.gather(1, chosen).transpose(1, 2)
            members[rows, there, :kept] = chosen.transpose(1, 2)
        place += own.pools
    return Entries(values, members, pools)


def _among_live(entries: Tensor, values: Tensor, members: Tensor) -> None:
    """Write one update's largest entries, of (members, pools), to (pools, k).

    Dead units leave whole rows and columns of a gradient at 0. What is 0 never moves and is never a pool's largest
    unless all of it is 0, so that sorting goes by the others alone.
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
