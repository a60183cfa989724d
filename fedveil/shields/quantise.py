"""Quantisation: send every number of an update in b bits, rounded at random so that nothing is biased."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from fedveil.core.errors import InputError
from fedveil.shields.compression import POSITION
from fedveil.shields.layers import Over, check_over, parts
from fedveil.shields.message import Context, Kind, Message
from fedveil.shields.shield import Shield


class Quantise(Shield):
    """Send s/L·⌊v·L/s + U⌋ for every number v of an update, with U uniform on [0, 1).

    Symbols: s the largest magnitude of the update or the tensor, L = 2^(b−1) − 1, b the bits; codes lie in −L … L.
    So E[sent] = v, its variance is at most (s/L)²/4, and no number moves by s/L or more; 0 stays 0, and so does a
    number of magnitude s. Alistarh et al. (2017, QSGD), with the largest magnitude in place of the norm; b = 2 is Wen
    et al. (2017, TernGrad).
    Guarantee: none. The rounding is bounded and its size follows the update's, so no ε is finite.
    In a chain it stands last: what a later shield changes is no longer on the grid, and is counted in full.
    `bytes` counts b bits for each number, or for those that are not 0, with a 32-bit position each, where that is
    shorter; and each scale s as a number of the update's own precision.

    Attributes:
        bits: how many bits a number takes, its sign included, from 2 to 16.
        over: one scale for the whole update, or one for each layer's weights and one for its biases.
    """

    name = "quantise"
    acts_on = frozenset({Kind.UPDATE})

    def __init__(self, bits: int = 8, over: Over = "update") -> None:
        if isinstance(bits, bool) or not 2 <= bits <= 16 or int(bits) != bits:
            raise InputError(f"quantise: bits is a whole number from 2 (−, 0, +) to 16; got {bits}")
        self.bits, self.over = int(bits), check_over(self.name, over)

    @property
    def levels(self) -> int:
        """How many steps L lie between 0 and the largest magnitude.

        >>> Quantise(2).levels, Quantise(8).levels
        (1, 127)
        """
        return int(2 ** (self.bits - 1) - 1)

    def change(self, message: Message, context: Context) -> Message:
        """Round every number to its grid, with randomness from the device's generator."""
        rows = message.values.flatten(1)
        drawn = torch.rand(rows.shape, generator=context.generator, dtype=torch.float64).to(rows.device)
        sent, scales = torch.zeros_like(rows), 0
        for part in parts(rows, self.over, context):
            sent[:, part] = self._rounded(rows[:, part].double(), drawn[:, part]).to(rows.dtype)
            scales += 1
        return message.with_values(sent.view(message.values.shape), self._bytes(sent, scales))

    def _rounded(self, rows: Tensor, drawn: Tensor) -> Tensor:
        scale = rows.abs().amax(dim=1, keepdim=True)
        steps = rows / torch.where(scale > 0, scale, 1.0) * self.levels
        codes = (steps + drawn).floor().clamp(-self.levels, self.levels)  # L + U may itself be rounded up to L + 1
        return codes / self.levels * scale

    def _bytes(self, sent: Tensor, scales: int) -> int:
        filled: list[int] = (sent != 0).sum(dim=1).tolist()
        each = [min(sent.shape[1] * self.bits, count * (self.bits + 8 * POSITION)) for count in filled]
        codes = sum(math.ceil(bits / 8) for bits in each)
        return codes + len(sent) * scales * sent.element_size()
