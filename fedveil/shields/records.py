"""The records behind an update, for shields that work record by record, and whether the update follows from them."""

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
            f"{name} needs the records behind an update; it works for one shared player that learns from x and y "
            "alone, and before any shield that certifies; nothing is sent"
        )
    if context.samples.player not in {segment.player for segment in context.segments}:
        raise ShieldError(f"{name}: the update has no tensors of player {context.samples.player!r}; nothing is sent")
    return context.samples


def step_of(name: str, samples: Samples) -> float:
    """Return what the mean gradient was multiplied by; nothing is sent if the update is not such a product."""
    if samples.step is None:
        raise ShieldError(
            f"{name}: no record's share of this update can be determined; it needs one step of plain SGD over all "
            "records of a device (batch size at least their number, 1 local epoch, no momentum or weight decay); "
            "nothing is sent"
        )
    return samples.step


def alike(contexts: Sequence[Context]) -> list[list[int]]:
    """Return groups of indices of contexts that share a network and its tensors: each group is one batch."""
    groups: dict[tuple[int, str, int], list[int]] = {}
    for index, context in enumerate(contexts):
        if context.samples is not None:
            samples = context.samples
            groups.setdefault((id(samples.network), samples.player, hash(context.segments)), []).append(index)
        else:
            groups.setdefault((0, "", index), []).append(index)
    return list(groups.values())


def check_recomputed(name: str, true: Tensor, recomputed: Tensor, weights: Tensor) -> None:
    """Refuse an update that does not follow from its records.

    Each row must agree to a thousandth, or to the rounding error of numbers as large as the weights. This detects batch
    norm across records, dropout, and another shield before this one.
    """
    allowed = 1e-3 * _norms(recomputed) + 4 * torch.finfo(true.dtype).eps * torch.linalg.vector_norm(weights.double())
    if bool((_norms(true.double() - recomputed.double()) > allowed).any()):
        raise ShieldError(
            f"{name}: the records' own gradients do not add up to this update (batch norm across records, dropout, or "
            "another shield before this one?); nothing is sent"
        )


def _norms(rows: Tensor) -> Tensor:
    norms: Tensor = torch.linalg.vector_norm(rows.double().flatten(1), dim=1)
    return norms
