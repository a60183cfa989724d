"""Model compression: send only the largest coordinates of an update."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from fedveil.core.errors import InputError
from fedveil.shields.message import Context, Kind, Message
from fedveil.shields.shield import Shield
from fedveil.updates.segments import checked

POSITION = 4
"""How many bytes the position of a number in an update takes."""

Over = Literal["update", "layer"]
"""All of an update together, or each tensor separately; a layer's weights and its biases are two tensors."""


def check_over(name: str, over: Over) -> None:
    """Refuse anything but "update" and "layer"."""
    if over not in ("update", "layer"):
        raise InputError(f"{name}: over must be 'update' (all of it together) or 'layer' (each tensor); got {over!r}")


def parts(rows: Tensor, over: Over, context: Context) -> list[slice]:
    """Return the columns of each part of the updates."""
    if over == "update":
        return [slice(0, rows.shape[1])]
    if not context.segments:
        raise InputError("over 'layer' needs the update's layers, but the context names none; use over 'update'")
    checked(rows, context.segments)
    return [slice(segment.start, segment.stop) for segment in context.segments if segment.stop > segment.start]


class LargestCoordinates(Shield):
    """Send a share of an update's coordinates, the largest in magnitude; the others are 0."""

    acts_on = frozenset({Kind.UPDATE})

    keep: float
    over: Over

    def kept(self, length: int) -> int:
        """Return how many coordinates of this many are sent: at least one.

        >>> Compression(0.1).kept(30), Compression(0.3).kept(10), Compression(0.001).kept(10)
        (3, 3, 1)
        """
        return max(1, math.ceil(round(self.keep * length, 9)))

    def change(self, message: Message, context: Context) -> Message:
        """Set all but the largest coordinates of each row to 0."""
        rows = message.values.flatten(1)
        sent, coordinates = torch.zeros_like(rows), 0
        for columns in parts(rows, self.over, context):
            part, count = rows[:, columns], self.kept(columns.stop - columns.start)
            largest = part.abs().topk(count, dim=1, sorted=False).indices
            sent[:, columns].scatter_(1, largest, part.gather(1, largest))
            coordinates += count
        encoded = len(rows) * coordinates * (rows.element_size() + POSITION)
        return message.with_values(sent.view(message.values.shape), encoded)


@dataclass(frozen=True, eq=False, repr=False)
class Compression(LargestCoordinates):
    """Send the k = ⌈keep·d⌉ coordinates of an update that are largest in magnitude; the others are 0.

    Symbols: d the update's length, or a tensor's length if k coordinates of each tensor are sent.
    Guarantee: none. What is sent is sent exactly, and which coordinates are largest reveals something as well.
    "Model compression" (TAPPFL), "gradient sparsification" (RecUP-FL) and "pruning" are three names for this: all
    threshold magnitudes so that a given share is left (`sparsify` is this with p = 1 − keep). Here the update is
    thresholded, as in Zhu, Liu and Han (2019), whom both cite; TAPPFL's text thresholds the parameters, which would
    send most of the start weights back and forth.
    Ties are broken arbitrarily; exactly k are sent. `bytes` counts k values with a 32-bit position each, or the whole
    update if that is shorter.

    Attributes:
        keep: the share of an update's coordinates that is sent, in (0, 1].
        over: whether the largest are chosen from the whole update, or from each layer's weights and biases separately.
    """

    name = "compression"

    keep: float = 0.1
    over: Over = "update"

    def __post_init__(self) -> None:
        if isinstance(self.keep, bool) or not 0 < self.keep <= 1:
            raise InputError(f"compression: keep is the share of coordinates that is sent, in (0, 1]; got {self.keep}")
        check_over(self.name, self.over)
