"""The inputs themselves: nobody learns anything, and x is released as it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from fedveil.games.game import DataShape, Game, Player, Stage
from fedveil.games.play import Play


@dataclass(frozen=True)
class Raw(Game):
    """r = x: no players and no stages. Guarantee: none.

    With a shield on inputs (`DropColumns`) it is what that shield leaves of x, for heads and attackers to learn from.
    """

    name = "raw"

    def players(self, shape: DataShape) -> Mapping[str, Player]:
        """Nobody plays."""
        return {}

    def stages(self, shape: DataShape) -> tuple[Stage, ...]:
        """Nothing is played."""
        return ()

    def represent(self, play: Play) -> Tensor:
        """The features."""
        return play.x
