"""What shields that work record by record share: the records behind an update, and whether they really made it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fedveil.shields.message import Context, Samples
from fedveil.shields.shield import ShieldError


def samples_of(name: str, context: Context) -> Samples:
    """Return the records behind an update; without them nothing is sent."""
    if context.samples is None or not len(context.samples.x):
        raise ShieldError(
            f"{name} needs the records behind an update, one by one: of one shared player that learns from x and y "
            "alone, before any shield that certifies; nothing is sent"
        )
    if context.samples.player not in {segment.player for segment in context.segments}:
        raise ShieldError(f"{name}: the update has no tensors of player {context.samples.player!r}; nothing is sent")
    return context.samples


def step_of(name: str, samples: Samples) -> float:
    """Return what the mean gradient was multiplied by; nothing is sent where the update is no such product."""
    if samples.step is None:
        raise ShieldError(
            f"{name}: no record's share of this update can be told; it needs one step of plain SGD over all records of "
            "a device (batch size at least their number, 1 local epoch, no momentum or weight decay); nothing is sent"
        )
    return samples.step


def alike(contexts: Sequence[Context]) -> list[list[int]]:
    """Return the places of contexts that share a network and its tensors: these go through it as one batch."""
    groups: dict[tuple[int, str, int], list[int]] = {}
    for place, context in enumerate(contexts):
        if context.samples is not None:
            own = context.samples
            groups.setdefault((id(own.network), own.player, hash(context.segments)), []).append(place)
        else:
            groups.setdefault((0, "", place), []).append(place)
    return list(groups.values())


def check_made(name: str, true: Tensor, made: Tensor, weights: Tensor) -> None:
    """Refuse unless the records give the update: each row to a thousandth, or to the rounding of the weights' own size.

    Batch norm across records, dropout, and another shield's work before this one are found here.
    """
    allowed = 1e-3 * _norms(made) + 4 * torch.finfo(true.dtype).eps * torch.linalg.vector_norm(weights.double())
    if bool((_norms(true.double() - made.double()) > allowed).any()):
        raise ShieldError(
            f"{name}: the records' own gradients do not add up to this update (batch norm across records, dropout, or "
            "another shield before this one?); nothing is sent"
        )


def _norms(rows: Tensor) -> Tensor:
    norms: Tensor = torch.linalg.vector_norm(rows.double().flatten(1), dim=1)
    return norms
