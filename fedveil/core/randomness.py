"""Explicit randomness: a generator for each purpose, derived from the study's seed; no global state."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch


def child_seed(seed: int, *purpose: str | int) -> int:
    """Return a 63-bit seed that is a fixed function of the seed and the purpose.

    >>> child_seed(0, "panel", "mlp") == child_seed(0, "panel", "mlp")
    True
    >>> child_seed(0, "panel", "mlp") == child_seed(0, "panel", "forest")
    False
    """
    text = "\x1f".join([str(seed), *(f"{type(part).__name__}:{part}" for part in purpose)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little") >> 1


def numpy_generator(seed: int, *purpose: str | int) -> np.random.Generator:
    """Return a numpy generator for one purpose."""
    return np.random.default_rng(child_seed(seed, *purpose))


def torch_generator(seed: int, *purpose: str | int) -> torch.Generator:
    """Return a torch generator, on the CPU, for one purpose."""
    import torch  # takes two seconds; commands that train no network do without it

    generator = torch.Generator()
    generator.manual_seed(child_seed(seed, *purpose))
    return generator
