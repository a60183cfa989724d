"""Over what a shield on updates reckons: all of an update together, or each tensor by itself."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from fedveil.core.errors import InputError
from fedveil.shields.message import Context
from fedveil.updates.segments import checked

Over = Literal["update", "layer"]
"""A layer's weights and its biases are two tensors, and each counts by itself."""


def check_over(name: str, over: Over) -> Over:
    """Refuse what is neither."""
    if over not in ("update", "layer"):
        raise InputError(f"{name}: over must be 'update' (all of it together) or 'layer' (each tensor); got {over!r}")
    return over


def parts(rows: Tensor, over: Over, context: Context) -> list[slice]:
    """Return where each part of the updates lies."""
    if over == "update":
        return [slice(0, rows.shape[1])]
    if not context.segments:
        raise InputError("over 'layer' needs the update's layers, and the context names none; use over 'update'")
    checked(rows, context.segments)
    return [slice(segment.start, segment.stop) for segment in context.segments if segment.stop > segment.start]
