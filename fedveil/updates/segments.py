"""Where each tensor lies in an update."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from fedveil.core.errors import InputError


@dataclass(frozen=True)
class Segment:
    """One tensor of one player in the flat vector of an update.

    Attributes:
        player: the player's name.
        name: the tensor's name in the player's network.
        shape: its shape.
        start: its first position.
        statistic: whether it is a statistic of a batch norm, which is not trained.
    """

    player: str
    name: str
    shape: tuple[int, ...]
    start: int
    statistic: bool = False

    @property
    def stop(self) -> int:
        """The position after its last one."""
        return self.start + math.prod(self.shape)

    def of(self, updates: Tensor) -> Tensor:
        """Return this tensor of every update, (n, *shape), as a view."""
        return updates[:, self.start : self.stop].reshape(len(updates), *self.shape)


def checked(updates: Tensor, segments: Sequence[Segment]) -> None:
    """Refuse segments that do not describe these updates."""
    expected = segments[-1].stop if segments else 0
    if updates.ndim != 2 or updates.shape[1] != expected:
        raise InputError(
            f"updates: have shape {tuple(updates.shape)}, but the segments describe rows of {expected} numbers"
        )
