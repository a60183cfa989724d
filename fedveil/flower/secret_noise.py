"""Noise that nobody can subtract again: drawn from the operating system's randomness, number by number.

torch seeds its generator with 32 bits, and a server can try all seeds in minutes: it knows some numbers of an update
(those of dead units are 0), so it sees some of the noise. Moreover, the generator is linear: anybody who sees enough of
its numbers can compute the rest. So at a real site, noise must not come from torch's generator.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import torch
from scipy.special import ndtri
from torch import Tensor

from fedveil.shields.dp.gaussian import DPGaussian
from fedveil.shields.dp.laplace import DPLaplace
from fedveil.shields.message import Context, Kind
from fedveil.shields.shield import Answer, Shield, members

Floats = npt.NDArray[np.float64]

_WORDS = 624
"""32-bit words in the state of a Mersenne twister."""

_HEAD = 24
"""Bytes before those words in `torch.Generator.get_state()`: the seed, the number of words left, and the next word."""


def secret_generator() -> torch.Generator:
    """Return a torch generator whose whole state, not 32 bits of it, comes from the operating system."""
    generator = torch.Generator()
    state = generator.manual_seed(0).get_state()
    words = np.frombuffer(os.urandom(4 * _WORDS), dtype=np.uint32).astype(np.uint64)  # torch keeps a word in 8 bytes
    state[_HEAD : _HEAD + 8 * _WORDS] = torch.from_numpy(words.view(np.uint8))
    generator.set_state(state)
    return generator


def keep_secret(shield: Shield) -> None:
    """Let a Gaussian or Laplace shield draw from the operating system, whatever generator it is given."""
    if isinstance(shield, DPGaussian):
        _draw_by(shield, lambda uniform: shield.deviation * ndtri(uniform))
    elif isinstance(shield, DPLaplace):
        _draw_by(
            shield,
            lambda uniform: -shield.scale * np.sign(uniform - 0.5) * np.log1p(-2 * np.abs(uniform - 0.5)),
        )


def keep_updates_secret(shield: Shield) -> None:
    """Let a run's shield draw for updates in secret: its generators derive from a seed that the server knows."""
    for member in members(shield):
        keep_secret(member)
    plain = shield.apply_all

    def apply_all(updates: Tensor, contexts: Sequence[Context], kind: Kind = Kind.UPDATE) -> list[Answer]:
        return plain(updates, [replace(context, generator=secret_generator()) for context in contexts], kind)

    vars(shield)["apply_all"] = apply_all  # settings of a shield are frozen; how this site draws is not one of them


def _draw_by(shield: DPGaussian | DPLaplace, law: Callable[[Floats], Floats]) -> None:
    """Compute noise from uniform numbers by the inverse of its distribution function."""

    def noise(shape: torch.Size, generator: torch.Generator) -> Tensor:
        return torch.from_numpy(law(_uniform(math.prod(shape)))).reshape(shape)

    vars(shield)["noise"] = noise


def _uniform(number: int) -> Floats:
    """Return numbers strictly between 0 and 1, of 52 random bits each; with 53 bits the largest would round to 1."""
    bits = np.frombuffer(os.urandom(8 * number), dtype=np.uint64) >> np.uint64(12)
    return np.asarray((bits.astype(np.float64) + 0.5) * 2.0**-52)
