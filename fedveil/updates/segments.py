"""Where each tensor lies in an update."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor

from fedveil.errors import InputError

if TYPE_CHECKING:
    from fedveil.federation.run import Run
    from fedveil.games.game import Stage


@dataclass(frozen=True)
class Segment:
    """One tensor of one player in the flat vector; `statistic` where it is a batch norm's and not trained."""

    player: str
    name: str
    shape: tuple[int, ...]
    start: int
    statistic: bool = False

    @property
    def stop(self) -> int:
        """One past its last position."""
        return self.start + math.prod(self.shape)

    def of(self, updates: Tensor) -> Tensor:
        """Return this tensor of every update, (n, *shape), as a view."""
        return updates[:, self.start : self.stop].reshape(len(updates), *self.shape)


def segments_of(run: Run, stage: Stage | None = None) -> tuple[Segment, ...]:
    """Return the tensors of an update in the order in which a device sends them, in a stage or in the present one."""
    if not run.stages:
        return ()
    if stage is None:
        stage = run.stages[min(run.progress.stage, len(run.stages) - 1)]
    found: list[Segment] = []
    place = 0
    for player in run.seats:
        if player in stage.shared and player in stage.players:
            layout = run.layouts[player]
            for entry in layout.parameters + layout.buffers:
                statistic = entry.start >= layout.trained
                found.append(Segment(player, entry.name, entry.shape, place + entry.start, statistic))
            place += layout.size
    return tuple(found)


def checked(updates: Tensor, segments: Sequence[Segment]) -> None:
    """Refuse segments that are not these updates'."""
    expected = segments[-1].stop if segments else 0
    if updates.ndim != 2 or updates.shape[1] != expected:
        raise InputError(
            f"updates: of shape {tuple(updates.shape)}, where the segments describe rows of {expected} numbers"
        )
