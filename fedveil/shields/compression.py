"""Model compression: share only the largest coordinates of an update."""

from __future__ import annotations

import math

import torch

from fedveil.core.errors import InputError
from fedveil.shields.layers import Over, check_over, parts
from fedveil.shields.message import Context, Kind, Message
from fedveil.shields.shield import Shield

POSITION = 4
"""Bytes that say where in an update a number stands."""


class Compression(Shield):
    """Send the k = ⌈keep·d⌉ coordinates of an update that are largest in magnitude; the others are 0.

    Symbols: d the update's length, or a tensor's where k are sent of each.
    Guarantee: none. What is sent is sent exactly, and which coordinates are largest tells something as well.
    One name for three: "model compression" (TAPPFL), "gradient sparsification" (RecUP-FL) and "pruning" all threshold
    magnitudes so that a given share is left (`sparsify` is this with p = 1 − keep). Here it is the update's, as in Zhu,
    Liu and Han (2019), whom both cite; TAPPFL's text thresholds the parameters, which would send most of the start
    weights back and forth.
    Ties go to either; exactly k are sent. `bytes` counts k values with a 32-bit position each, or the whole
    update where that is shorter.

    Attributes:
        keep: the share of an update's coordinates that is sent, in (0, 1].
        over: the largest of the whole update, or of each layer's weights and biases by themselves.
    """

    name = "compression"
    acts_on = frozenset({Kind.UPDATE})

    def __init__(self, keep: float = 0.1, over: Over = "update") -> None:
        if isinstance(keep, bool) or not 0 < keep <= 1:
            raise InputError(f"compression: keep is the share of coordinates that is sent, in (0, 1]; got {keep}")
        self.keep, self.over = keep, check_over(self.name, over)

    def kept(self, length: int) -> int:
        """Return how many of so many coordinates are sent: at least one.

        >>> Compression(0.1).kept(30), Compression(0.3).kept(10), Compression(0.001).kept(10)
        (3, 3, 1)
        """
        return max(1, math.ceil(round(self.keep * length, 9)))

    def change(self, message: Message, context: Context) -> Message:
        """Set all but the largest coordinates of each row to 0."""
        rows = message.values.flatten(1)
        sent, coordinates = torch.zeros_like(rows), 0
        for part in parts(rows, self.over, context):
            own, kept = rows[:, part], self.kept(part.stop - part.start)
            places = own.abs().topk(kept, dim=1, sorted=False).indices
            sent[:, part].scatter_(1, places, own.gather(1, places))
            coordinates += kept
        encoded = len(rows) * coordinates * (rows.element_size() + POSITION)
        return message.with_values(sent.view(message.values.shape), encoded)
