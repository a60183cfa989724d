"""The inputs themselves: nothing is trained, and x is released as it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from fedveil.games.game import DataShape, Game, Player, Stage
from fedveil.games.play import Play


@dataclass(frozen=True)
class Raw(Game):
    """r = x: no players and no stages. Guarantee: none.

    With a shield on inputs, such as `DropColumns`, heads and attackers learn from what that shield leaves of x.
    """

    name = "raw"

    def players(self, shape: DataShape) -> Mapping[str, Player]:
        """No players."""
        return {}

    def stages(self, shape: DataShape) -> tuple[Stage, ...]:
        """No stages."""
        return ()

    def represent(self, play: Play) -> Tensor:
        """The features."""
        return play.x
