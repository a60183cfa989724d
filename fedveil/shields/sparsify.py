"""Gradient sparsification: RecUP-FL's name and setting for compression."""

from __future__ import annotations

from fedveil.core.errors import InputError
from fedveil.shields.compression import Compression, Over


class Sparsify(Compression):
    """Send the ⌈(1 − p)·d⌉ coordinates of an update that are largest in magnitude; the others are 0.

    Symbols: d the update's length, or a tensor's length if each tensor is treated separately; p the share set to 0.
    Guarantee: none. This is `Compression` with keep = 1 − p. Zhu, Liu and Han (2019); RecUP-FL §5.3.

    Attributes:
        p: the share of an update's coordinates that is not sent, in [0, 1).
        over: whether the largest are chosen from the whole update, or from each layer's weights and biases separately.
    """

    name = "sparsify"

    def __init__(self, p: float = 0.9, over: Over = "update") -> None:
        if isinstance(p, bool) or not 0 <= p < 1:
            raise InputError(f"sparsify: p is the share of coordinates that is not sent, in [0, 1); got {p}")
        super().__init__(1 - p, over)
        self.p = p
