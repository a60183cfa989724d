"""What a shield acts on (what leaves a device, or its records), and what the shield may know."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from fedveil.core.policy import Policy
    from fedveil.updates.segments import Segment


class Kind(StrEnum):
    """What a message carries. `INPUT` does not leave: it is a device's records, before anything else is done."""

    INPUT = "input"
    GRADIENT = "per-sample gradient"
    UPDATE = "update"
    PARAMETERS = "parameters"
    REPRESENTATION = "representation"
    OUTPUT = "output"


LEAVING = frozenset(Kind) - {Kind.INPUT}
"""Everything that leaves a device."""


@dataclass(frozen=True, eq=False)
class Message:
    """Rows of numbers: one per update about to leave a device, per released record, or per record of the device.

    Attributes:
        kind: what the rows are.
        values: the rows.
        encoded: how many bytes these numbers take in a shorter form; None if they have none.
    """

    kind: Kind
    values: Tensor
    encoded: int | None = None

    def with_values(self, values: Tensor, encoded: int | None = None) -> Message:
        """Return the same message with other numbers; the shorter form of the old numbers no longer applies."""
        return replace(self, values=values, encoded=encoded)

    @property
    def bytes(self) -> int:
        """How many bytes are sent: those of the shorter form, if there is one."""
        whole = self.values.numel() * self.values.element_size()
        return whole if self.encoded is None else min(whole, self.encoded)


@dataclass(frozen=True, eq=False)
class Samples:
    """The records behind an update, for shields that treat each of them separately.

    Attributes:
        network: the network, with the weights that the device started from; many devices may share one.
        loss: a function of outputs (m, …) and labels (m, …) that returns one number per record.
        x, y: the m records that the update was computed from, and their labels.
        player: whose update it is; the message holds this player's numbers alone.
        step: the update is step · (mean gradient of the records' losses): 1 if the gradient itself is sent, minus the
            learning rate after one step of plain descent; None after several steps or with another optimiser.
    """

    network: nn.Module
    loss: Callable[[Tensor, Tensor], Tensor]
    x: Tensor
    y: Tensor
    player: str = "model"
    step: float | None = 1.0


@dataclass(frozen=True, eq=False)
class Context:
    """What a device knows, for its shield only; it may be read, but not changed.

    Attributes:
        device, round: whose message it is, and when.
        generator: the device's randomness for this message.
        data: the device's records behind the message ("x", "y", "u:<name>"), if it has them.
        model: the flat weights of each player that the device holds.
        policy: what the person at the device has chosen, if anything.
        segments: where each tensor lies in an update; empty for other messages. This is no secret: everybody knows the
            model.
        networks: the shared players' networks with the weights that the device started from, if it has them.
        samples: the records that the update was computed from, one by one, if one player learned from (x, y) alone.
    """

    device: int
    round: int
    generator: torch.Generator
    data: Mapping[str, Tensor] = field(default_factory=dict)
    model: Mapping[str, Tensor] = field(default_factory=dict)
    policy: Policy | None = None
    segments: tuple[Segment, ...] = ()
    networks: Mapping[str, nn.Module] = field(default_factory=dict)
    samples: Samples | None = None


@dataclass(frozen=True)
class Damage:
    """What a shield did to a message: norms of the change, and what is left of the direction.

    Attributes:
        l2, linf: norms of the change, averaged over the message's rows.
        cosine: between the true and the sent row, also averaged; 1 if both are 0, and 0 if only one of them is.
        bytes: how much is sent.

    >>> Damage.between(torch.tensor([[3.0, 4.0]]), torch.tensor([[3.0, 0.0]])).l2
    4.0
    """

    l2: float
    linf: float
    cosine: float
    bytes: int

    @classmethod
    def between(cls, true: Tensor, sent: Tensor, sent_bytes: int | None = None) -> Damage:
        """Measure the change in double precision; `sent_bytes` defaults to the size of the numbers as stored."""
        counted = sent.numel() * sent.element_size() if sent_bytes is None else sent_bytes
        if not sent.numel():
            return cls(0.0, 0.0, 1.0, counted)
        l2, linf, cosine = (float(norms.mean()) for norms in _differences(true.flatten(1), sent.flatten(1)))
        return cls(l2, linf, cosine, counted)

    @classmethod
    def of_rows(cls, true: Tensor, sent: Tensor, sent_bytes: Sequence[int]) -> list[Damage]:
        """Measure each row separately, some rows at a time."""
        if not true.shape[1]:
            return [cls(0.0, 0.0, 1.0, size) for size in sent_bytes]
        at_once = max(1, _NUMBERS // true.shape[1])
        parts = [
            torch.stack(_differences(before, after), dim=1)
            for before, after in zip(torch.split(true, at_once), torch.split(sent, at_once), strict=True)
        ]
        rows: list[list[float]] = torch.cat(parts).tolist() if parts else []
        return [cls(l2, linf, cosine, size) for (l2, linf, cosine), size in zip(rows, sent_bytes, strict=True)]


_NUMBERS = 2**20
"""How many numbers are measured at a time: in double precision they should fit into the cache."""


def _differences(true: Tensor, sent: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return, for each row, the L2 and L∞ norms of the change, and the cosine, in double precision."""
    largest = torch.maximum(true.abs().amax(dim=1), sent.abs().amax(dim=1)).double()
    unit = _powers_of_two(largest)  # exact, and no square overflows
    before, after = (part.to(torch.float64, copy=True).div_(unit[:, None]) for part in (true, sent))
    products_of_norms: Tensor = torch.linalg.vector_norm(before, dim=1) * torch.linalg.vector_norm(after, dim=1)
    cosine = torch.linalg.vecdot(before, after) / torch.where(products_of_norms > 0, products_of_norms, 1.0)
    change = after.sub_(before)  # in place: allocating memory would cost more than all the sums
    linf = change.abs().amax(dim=1)
    both_zero = (products_of_norms == 0) & (linf == 0)
    l2: Tensor = torch.linalg.vector_norm(change, dim=1)
    return l2 * unit, linf * unit, torch.where(both_zero, 1.0, cosine)


def _powers_of_two(sizes: Tensor) -> Tensor:
    """Return the largest power of 2 not above each size; 1 for 0 and for sizes that are not finite."""
    usable = torch.where((sizes > 0) & torch.isfinite(sizes), sizes, 1.0)
    return usable / (2 * torch.frexp(usable).mantissa)  # exact for double precision too, which ldexp is not
