"""Gradient sparsification: RecUP-FL's name and setting for compression."""

from __future__ import annotations

from dataclasses import dataclass, field

from fedveil.core.errors import InputError
from fedveil.shields.compression import LargestCoordinates, Over, check_over


@dataclass(frozen=True, eq=False, repr=False)
class Sparsify(LargestCoordinates):
    """Send the ⌈(1 − p)·d⌉ coordinates of an update that are largest in magnitude; the others are 0.

    Symbols: d the update's length, or a tensor's length if each tensor is treated separately; p the share set to 0.
    Guarantee: none. This is `Compression` with keep = 1 − p. Zhu, Liu and Han (2019); RecUP-FL §5.3.

    Attributes:
        p: the share of an update's coordinates that is not sent, in [0, 1).
        over: whether the largest are chosen from the whole update, or from each layer's weights and biases separately.
    """

    name = "sparsify"

    p: float = 0.9
    over: Over = "update"
    keep: float = field(init=False)

    def __post_init__(self) -> None:
        if isinstance(self.p, bool) or not 0 <= self.p < 1:
            raise InputError(f"sparsify: p is the share of coordinates that is not sent, in [0, 1); got {self.p}")
        check_over(self.name, self.over)
        object.__setattr__(self, "keep", 1 - self.p)

    def __repr__(self) -> str:
        return f"Sparsify(keep={self.keep!r}, over={self.over!r}, p={self.p!r})"  # as saved runs describe it
