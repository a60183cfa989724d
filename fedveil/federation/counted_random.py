"""Random numbers as a pure function of (seed, step, call, position): the same on every engine.

A counter-based generator (the finaliser of SplitMix64; Steele, Lea and Flood 2014) needs no state, so a
stack of devices draws in one pass exactly what each device would draw alone. For dropout masks, not for
privacy noise: it is statistically sound, not cryptographic.
"""

from __future__ import annotations

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
    """Return a whole number as 64 signed bits would hold it."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


def _mix(z: Tensor) -> Tensor:
    z = (z ^ ((z >> 30) & ((1 << 34) - 1))) * _MIX1
    z = (z ^ ((z >> 27) & ((1 << 37) - 1))) * _MIX2
    return z ^ ((z >> 31) & ((1 << 33) - 1))
