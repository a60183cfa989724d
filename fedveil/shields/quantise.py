"""Quantisation: send every number of an update in b bits, rounded at random without bias."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from fedveil.core.errors import InputError
from fedveil.shields.compression import POSITION, Over, check_over, parts
from fedveil.shields.message import Context, Kind, Message
from fedveil.shields.shield import Shield


@dataclass(frozen=True, eq=False, repr=False)
class Quantise(Shield):
    """Send s/L·⌊v·L/s + U⌋ for every number v of an update, with U uniform on [0, 1).

    Symbols: s the largest magnitude of the update or the tensor, L = 2^(b−1) − 1, b the bits; codes lie in −L … L.
    So E[sent] = v, its variance is at most (s/L)²/4, and no number moves by s/L or more; numbers of magnitude 0 and s
    do not move. Alistarh et al. (2017, QSGD), with the largest magnitude in place of the norm; b = 2 is Wen et al.
    (2017, TernGrad).
    Guarantee: none. The rounding is bounded and its size depends on the update, so no ε is finite.
    In a chain it should come last: numbers that a later shield changes are no longer on the grid, and are counted in
    full. `bytes` counts b bits for each number, or, if that is shorter, for each nonzero number with a 32-bit position;
    and each scale s as a number of the update's precision.

    Attributes:
        bits: how many bits a number takes, including its sign, from 2 to 16.
        over: one scale for the whole update, or one for each layer's weights and one for its biases.
    """

    name = "quantise"
    acts_on = frozenset({Kind.UPDATE})

    bits: int = 8
    over: Over = "update"

    def __post_init__(self) -> None:
        if isinstance(self.bits, bool) or not 2 <= self.bits <= 16 or int(self.bits) != self.bits:
            raise InputError(f"quantise: bits is a whole number from 2 (−, 0, +) to 16; got {self.bits}")
        check_over(self.name, self.over)
        object.__setattr__(self, "bits", int(self.bits))

    @property
    def levels(self) -> int:
        """The number of steps L between 0 and the largest magnitude.

        >>> Quantise(2).levels, Quantise(8).levels
        (1, 127)
        """
        return int(2 ** (self.bits - 1) - 1)

    def change(self, message: Message, context: Context) -> Message:
        """Round every number to its grid, with randomness from the device's generator."""
        rows = message.values.flatten(1)
        drawn = torch.rand(rows.shape, generator=context.generator, dtype=torch.float64).to(rows.device)
        sent, scales = torch.zeros_like(rows), 0
        for columns in parts(rows, self.over, context):
            sent[:, columns] = self._rounded(rows[:, columns].double(), drawn[:, columns]).to(rows.dtype)
            scales += 1
        return message.with_values(sent.view(message.values.shape), self._bytes(sent, scales))

    def _rounded(self, rows: Tensor, drawn: Tensor) -> Tensor:
        scale = rows.abs().amax(dim=1, keepdim=True)
        steps = rows / torch.where(scale > 0, scale, 1.0) * self.levels
        codes = (steps + drawn).floor().clamp(-self.levels, self.levels)  # L + U may itself be rounded up to L + 1
        return codes / self.levels * scale

    def _bytes(self, sent: Tensor, scales: int) -> int:
        nonzero: list[int] = (sent != 0).sum(dim=1).tolist()
        each = [min(sent.shape[1] * self.bits, count * (self.bits + 8 * POSITION)) for count in nonzero]
        codes = sum(math.ceil(bits / 8) for bits in each)
        return codes + len(sent) * scales * sent.element_size()
