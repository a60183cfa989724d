"""Model compression: share only the largest coordinates of an update."""

from __future__ import annotations

import math
from dataclasses import replace

import torch

from fedveil.errors import InputError
from fedveil.shields.message import Context, Damage, Kind, Message
from fedveil.shields.shield import Shield


class Compression(Shield):
    """Send the k = ⌈keep·d⌉ coordinates of an update that are largest in magnitude; the others are 0.

    Symbols: d the update's length.
    Guarantee: none. What is sent is sent exactly, and which coordinates are largest tells something as well.
    One name for three: "model compression" (TAPPFL), "gradient sparsification" (RecUP-FL) and "pruning" all threshold
    magnitudes so that a given share is left. Here it is the update's, as in Zhu, Liu and Han (2019), whom both cite;
    TAPPFL's text thresholds the parameters, which would send most of the start weights back and forth.
    Ties go to either; exactly k are sent. `bytes` counts k values with a 32-bit position each, or the whole
    update where that is shorter.

    Attributes:
        keep: the share of an update's coordinates that is sent, in (0, 1].
    """

    name = "compression"
    acts_on = frozenset({Kind.UPDATE})

    def __init__(self, keep: float = 0.1) -> None:
        if isinstance(keep, bool) or not 0 < keep <= 1:
            raise InputError(f"compression: keep is the share of coordinates that is sent, in (0, 1]; got {keep}")
        self.keep = keep

    def kept(self, length: int) -> int:
        """Return how many of so many coordinates are sent: at least one.

        >>> Compression(0.1).kept(30), Compression(0.3).kept(10), Compression(0.001).kept(10)
        (3, 3, 1)
        """
        return max(1, math.ceil(round(self.keep * length, 9)))

    def change(self, message: Message, context: Context) -> Message:
        """Set all but the largest coordinates of each row to 0."""
        rows = message.values.flatten(1)
        if not torch.isfinite(rows).all():
            raise InputError("the update holds NaN or infinite numbers")
        places = rows.abs().topk(self.kept(rows.shape[1]), dim=1, sorted=False).indices
        sent = torch.zeros_like(rows).scatter_(1, places, rows.gather(1, places))
        return message.with_values(sent.view(message.values.shape))

    def apply(self, message: Message, context: Context) -> tuple[Message, Damage]:
        """Shield a message; its bytes are those of the coordinates that are sent."""
        sent, damage = super().apply(message, context)
        if message.kind not in self.acts_on:
            return sent, damage
        each = sent.values.element_size() + 4
        sparse = len(sent.values) * self.kept(sent.values.flatten(1).shape[1]) * each
        return sent, replace(damage, bytes=min(damage.bytes, sparse))
