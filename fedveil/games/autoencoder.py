"""A label-free autoencoder: a representation that keeps x, and hides nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from fedveil.core.models import mlp
from fedveil.games.game import DataShape, Game, Move, Player, Stage, flat_size
from fedveil.games.losses import squared_error
from fedveil.games.optimisers import SGD, Optimiser
from fedveil.games.play import Play


@dataclass(frozen=True)
class Autoencoder(Game):
    """min_{f,d} ‖x − d(f(x))‖² / dim x. It reads x and nothing else. Guarantee: none.

    Symbols: f the encoder, whose output is released, d the decoder; both are shared.

    Attributes:
        hidden: sizes of the encoder's hidden layers; the decoder mirrors them.
        width: how many numbers the representation has.
        optimiser: how encoder and decoder descend their loss.
        local_epochs: passes over its records that a device makes in a round.
        batch_size: records in one step.
    """

    hidden: tuple[int, ...] = (64,)
    width: int = 16
    optimiser: Optimiser = SGD(0.1, momentum=0.9)
    local_epochs: int = 1
    batch_size: int = 32
    name = "autoencoder"

    def players(self, shape: DataShape) -> Mapping[str, Player]:
        """Encoder and decoder, mirror images of each other."""
        inward = [flat_size(shape), *self.hidden, self.width]
        return {
            "encoder": Player(lambda generator: mlp(inward, generator), self.optimiser),
            "decoder": Player(lambda generator: mlp(inward[::-1], generator), self.optimiser),
        }

    def stages(self, shape: DataShape) -> tuple[Stage, ...]:
        """Both descend the reconstruction error."""
        return (
            Stage(
                moves=(Move(("encoder", "decoder"), _reconstruct),),
                shared=frozenset({"encoder", "decoder"}),
                reads=frozenset({"x"}),
                local_epochs=self.local_epochs,
                batch_size=self.batch_size,
                validation=_reconstruct,
            ),
        )

    def represent(self, play: Play) -> Tensor:
        """The encoder's output for x."""
        return play("encoder", play.x)


def _reconstruct(play: Play) -> Tensor:
    return squared_error(play("decoder", play("encoder", play.x)), play.x)
