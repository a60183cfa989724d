"""Random numbers as a pure function of (seed, step, call, position): the same on every engine.

A counter-based generator (the finaliser of SplitMix64; Steele, Lea and Flood 2014) needs no state, so a stack of
devices draws in one pass exactly what each device would draw alone. It serves dropout masks and the draws of losses
(`Dice`), never privacy noise: it is statistically sound, not cryptographic.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

_GAMMA = -7046029254386353131  # 0x9E3779B97F4A7C15 as a signed 64-bit integer
_MIX1 = -4658895280553007687  # 0xBF58476D1CE4E5B9
_MIX2 = -7723592293110705685  # 0x94D049BB133111EB


def uniform(seeds: Tensor, step: int, call: int, per_device: tuple[int, ...]) -> Tensor:
    """Return numbers in [0, 1), (devices, *per_device), from one 63-bit seed per device.

    >>> both = uniform(torch.tensor([1, 2]), 0, 0, (3,))
    >>> bool(torch.equal(both[1:], uniform(torch.tensor([2]), 0, 0, (3,))))
    True
    """
    count = 1
    for size in per_device:
        count *= size
    positions = torch.arange(count, device=seeds.device, dtype=torch.int64)
    keyed = _mix(_mix(seeds + _wrapped(_GAMMA * (step + 1))) + _wrapped(_GAMMA * (call + 1))).unsqueeze(1)
    bits = _mix(keyed + positions * _GAMMA)
    return ((bits >> 11) & ((1 << 53) - 1)).to(torch.float64).mul_(2.0**-53).view(len(seeds), *per_device)


def _wrapped(number: int) -> int:
    """Return a whole number, wrapped to 64 signed bits."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


def _mix(z: Tensor) -> Tensor:
    z = (z ^ ((z >> 30) & ((1 << 34) - 1))) * _MIX1
    z = (z ^ ((z >> 27) & ((1 << 37) - 1))) * _MIX2
    return z ^ ((z >> 31) & ((1 << 33) - 1))


class Dice:
    """What losses draw: uniform numbers for the records of some devices' batches; `turn` selects the batch.

    A record's numbers depend on its position in its device's batch, not on how many devices are stacked or how far
    batches are padded. Seeds are made at the first draw, so that a game that draws nothing does not pay for them.
    """

    def __init__(self, seeds: Callable[[], Tensor]) -> None:
        self._make_seeds = seeds
        self._seeds: Tensor | None = None
        self._records: torch.Size = torch.Size()
        self._step = self._call = 0

    def turn(self, step: int, records: torch.Size) -> None:
        """Move on to a step's batch: (batch,) of a single device, or (devices, batch) of the leading devices."""
        self._step, self._call, self._records = step, 0, records

    def __call__(self, shape: tuple[int, ...]) -> Tensor:
        """Return numbers in [0, 1), (*records, *shape), in float64."""
        if self._seeds is None:
            self._seeds = self._make_seeds()
        self._call += 1
        *stack, batch = self._records
        numbers = uniform(self._seeds[: stack[0] if stack else 1], self._step, self._call, (batch, *shape))
        return numbers if stack else numbers[0]


def fixed_dice(seed: int, device: torch.device) -> Dice:
    """Return the dice for records that no device holds: those of a rehearsal, or of a validation loss."""
    return Dice(lambda: torch.tensor([seed], dtype=torch.int64, device=device))
