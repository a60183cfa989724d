"""Which entries of an update can ever be the largest of their pool (Melis pooling), and where they stand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from fedveil.errors import InputError
from fedveil.updates.features import LARGE
from fedveil.updates.segments import Segment, checked

_NUMBERS = 2**22
"""How many numbers are sorted out at a time."""


@dataclass(frozen=True, eq=False)
class Entries:
    """The k largest entries of each pool, largest first, of n updates with f pools.

    Attributes:
        values: (k, n, f); 0 where a pool has fewer than k entries.
        columns: (k, n, f) where each stands in the update; where a pool has fewer, any place.
    """

    values: Tensor
    columns: Tensor


@dataclass(frozen=True, eq=False)
class Pool:
    """One tensor's pools: its entries as (members of a pool, pools)."""

    segment: Segment
    columns: Tensor

    def of(self, updates: Tensor) -> Tensor:
        """Return (n, members, pools) of some updates."""
        segment, (members, pools) = self.segment, self.columns.shape
        own = segment.of(updates)
        if own.ndim > 3:
            windows = own.flatten(3)  # (n, outputs, inputs, window)
            if pools == segment.shape[1]:
                return windows.transpose(2, 3).reshape(len(own), members, pools)
            return windows.flatten(1, 2).transpose(1, 2)
        return own.reshape(len(own), members, pools)


@lru_cache(maxsize=8)
def pools_of(segments: tuple[Segment, ...]) -> tuple[Pool, ...]:
    """Return every tensor's pools, in the order of the features "max"."""
    found = []
    for segment in segments:
        if segment.statistic or len(segment.shape) < 2:
            continue
        places = torch.arange(segment.start, segment.stop).view(segment.shape)
        outputs, inputs = segment.shape[:2]
        windows = places.view(outputs, inputs, -1)
        if len(segment.shape) == 2 or windows.shape[2] == 1:
            large = outputs * inputs > LARGE
            columns = windows.reshape(outputs, inputs) if large else windows.reshape(1, -1)
        elif outputs * inputs > LARGE:
            columns = windows.transpose(1, 2).reshape(-1, inputs)
        else:
            columns = windows.flatten(0, 1).T.contiguous()
        found.append(Pool(segment, columns))
    if not found:
        raise InputError("updates: these players have no tensors that 'max' reads; choose others")
    return tuple(found)


def entries_of(updates: Tensor, segments: Sequence[Segment], depth: int) -> Entries:
    """Find the entries that can become the largest of their pool while at most `depth` − 1 of it are changed."""
    checked(updates, segments)
    pools = pools_of(tuple(segments))
    total = sum(pool.columns.shape[1] for pool in pools)
    depth = min(depth, max(len(pool.columns) for pool in pools))
    values = updates.new_zeros(depth, len(updates), total)
    columns = torch.zeros(depth, len(updates), total, dtype=torch.int64, device=updates.device)
    place = 0
    for pool in pools:
        members, width = pool.columns.shape
        kept = min(depth, members)
        own_columns = pool.columns.to(updates.device)
        at_once = max(1, _NUMBERS // max(1, members * width))
        for first in range(0, len(updates), at_once):
            part = pool.of(updates[first : first + at_once])
            rows = slice(first, first + len(part))
            chosen = part.abs().topk(kept, dim=1).indices
            values[:kept, rows, place : place + width] = part.gather(1, chosen).transpose(0, 1)
            columns[:kept, rows, place : place + width] = (
                own_columns.gather(0, chosen.flatten(0, 1)).view_as(chosen).transpose(0, 1)
            )
        place += width
    return Entries(values, columns)
