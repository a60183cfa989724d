"""No defence: an encoder and a head, trained on the task alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor, nn

from fedveil.core.models import mlp
from fedveil.games.fedavg import Build, flat_size, task_classes
from fedveil.games.game import DataShape, Game, Move, Player, Stage
from fedveil.games.losses import cross_entropy
from fedveil.games.optimisers import SGD, Optimiser
from fedveil.games.play import Play


@dataclass(frozen=True)
class Undefended(Game):
    """min_{f,c} CE(y | c(f(x))): what is released when nobody hides anything.

    Symbols: f the encoder, c the task's head; both are shared. Task-aware: it reads y. Guarantee: none. The networks
    are those of `AdversarialTraining`, which at strength 0 differs by its adversary alone: the zero of its scale.
    """

    hidden: tuple[int, ...] = (64,)
    width: int = 64
    encoder: Build | None = None
    optimiser: Optimiser = SGD(0.05)
    local_epochs: int = 1
    batch_size: int = 32
    name = "undefended"

    def players(self, shape: DataShape) -> Mapping[str, Player]:
        """Encoder and head."""
        return encoder_and_head(shape, self.hidden, self.width, self.encoder, self.optimiser)

    def stages(self, shape: DataShape) -> tuple[Stage, ...]:
        """Both descend the task's cross-entropy."""
        both = ("encoder", "head")
        return (
            Stage(
                moves=(Move(both, self._serve),),
                shared=frozenset(both),
                reads=frozenset({"x", "y"}),
                local_epochs=self.local_epochs,
                batch_size=self.batch_size,
            ),
        )

    def _serve(self, play: Play) -> Tensor:
        return cross_entropy(self.outputs(play), play.y)

    def represent(self, play: Play) -> Tensor:
        """What the encoder makes of x."""
        return play("encoder", play.x)

    def outputs(self, play: Play) -> Tensor:
        """The task's logits."""
        return play("head", play("encoder", play.x))


def encoder_and_head(
    shape: DataShape,
    hidden: tuple[int, ...],
    width: int,
    encoder: Build | None,
    optimiser: Optimiser,
    last: nn.Module | None = None,
) -> dict[str, Player]:
    """Return an encoder and a linear head on it; another encoder is given by its builder.

    The encoder ends in tanh, x → (−1, 1)^width, or in `last`.
    """
    classes = task_classes(shape)
    sizes = [] if encoder else [flat_size(shape), *hidden, width]
    return {
        "encoder": Player(encoder or (lambda generator: mlp(sizes, generator, last=last or nn.Tanh())), optimiser),
        "head": Player(lambda generator: mlp([width, classes], generator), optimiser),
    }
