"""What losses draw: uniform numbers per record, one generator per device, round, step and call."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from fedveil.federation.counted_random import uniform


class Dice:
    """Numbers of some devices' batches; `turn` says which batch comes next.

    The numbers of a record depend on its place in its device's batch, not on how many devices are stacked, nor on how
    far batches are padded. Seeds are made at the first draw: a game that draws nothing pays nothing.
    """

    def __init__(self, seeds: Callable[[], Tensor]) -> None:
        self._make_seeds = seeds
        self._seeds: Tensor | None = None
        self._records: torch.Size = torch.Size()
        self._step = self._call = 0

    def turn(self, step: int, records: torch.Size) -> None:
        """Go on to a step's batch: (batch,) of a single device, or (devices, batch) of the leading ones."""
        self._step, self._call, self._records = step, 0, records

    def __call__(self, shape: tuple[int, ...]) -> Tensor:
        """Return numbers in [0, 1), (*records, *shape), in float64."""
        if self._seeds is None:
            self._seeds = self._make_seeds()
        self._call += 1
        *stack, batch = self._records
        drawn = uniform(self._seeds[: stack[0] if stack else 1], self._step, self._call, (batch, *shape))
        return drawn if stack else drawn[0]


def fixed_dice(seed: int, place: torch.device) -> Dice:
    """Return the dice of records that no device holds: a rehearsal's, or those that a validation loss judges by."""
    return Dice(lambda: torch.tensor([seed], dtype=torch.int64, device=place))
