"""What a shield acts on: what leaves a device, or the records it works with; and what the shield may know then."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

import torch
from torch import Tensor


class Kind(StrEnum):
    """What a message carries. `INPUT` does not leave: it is a device's own records, before all else is done."""

    INPUT = "input"
    GRADIENT = "per-sample gradient"
    UPDATE = "update"
    PARAMETERS = "parameters"
    REPRESENTATION = "representation"
    OUTPUT = "output"


LEAVING = frozenset(Kind) - {Kind.INPUT}
"""All that leaves a device."""


@dataclass(frozen=True, eq=False)
class Message:
    """Rows of numbers: one per update about to leave one device, per released record, or per record of the device."""

    kind: Kind
    values: Tensor

    def with_values(self, values: Tensor) -> Message:
        """Return the same message with other numbers."""
        return replace(self, values=values)


@dataclass(frozen=True, eq=False)
class Context:
    """The device's own knowledge, for its shield only; to be read, not written.

    Attributes:
        device, round: whose message it is, and when.
        generator: the device's randomness for this message.
        data: the device's records that stand behind the message ("x", "y", "u:<name>"), where it has them.
        model: the flat weights of each player that the device holds.
        policy: what the person at the device has chosen.
    """

    device: int
    round: int
    generator: torch.Generator
    data: Mapping[str, Tensor] = field(default_factory=dict)
    model: Mapping[str, Tensor] = field(default_factory=dict)
    policy: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Damage:
    """What a shield did to a message: realised norms of the change and what is left of the direction.

    >>> Damage.between(torch.tensor([[3.0, 4.0]]), torch.tensor([[3.0, 0.0]])).l2
    4.0
    """

    l2: float
    linf: float
    cosine: float
    bytes: int

    @classmethod
    def between(cls, true: Tensor, sent: Tensor) -> Damage:
        """Measure the change, averaged over the message's rows."""
        if not len(true):
            return cls(0.0, 0.0, 1.0, 0)
        change = (sent - true).flatten(1)
        cosine = torch.nn.functional.cosine_similarity(true.flatten(1), sent.flatten(1), dim=1)
        return cls(
            l2=float(change.norm(dim=1).mean()),
            linf=float(change.abs().amax(dim=1).mean()),
            cosine=float(cosine.mean()),
            bytes=sent.numel() * sent.element_size(),
        )
