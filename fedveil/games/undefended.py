"""No defence: an encoder and a head, trained on the task alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor, nn

from fedveil.core.models import mlp
from fedveil.games.game import Build, DataShape, Game, Move, Player, Stage, flat_size, task_classes
from fedveil.games.losses import cross_entropy
from fedveil.games.optimisers import SGD, Optimiser
from fedveil.games.play import Play


@dataclass(frozen=True)
class Undefended(Game):
    """min_{f,c} CE(y | c(f(x))): what is released when nothing is hidden.

    Symbols: f the encoder, c the task's head; both are shared. Task-aware: it reads y. Guarantee: none. The networks
    are those of `AdversarialTraining`, which at strength 0 differs only by having an adversary: this game is the
    starting point of its scale.

    Attributes:
        hidden: sizes of the encoder's hidden layers.
        width: how many numbers the representation has.
        encoder: builds another encoder from a generator; it must return `width` numbers.
        optimiser: how encoder and head descend their loss.
        local_epochs: passes over its records that a device makes in a round.
        batch_size: records in one step.
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
        """The encoder's output for x."""
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
    """Return an encoder and a linear head on it; `encoder` builds one to replace the fully connected encoder.

    The encoder ends in tanh, x → (−1, 1)^width, or in `last`.
    """
    classes = task_classes(shape)
    sizes = [] if encoder else [flat_size(shape), *hidden, width]
    return {
        "encoder": Player(encoder or (lambda generator: mlp(sizes, generator, last=last or nn.Tanh())), optimiser),
        "head": Player(lambda generator: mlp([width, classes], generator), optimiser),
    }
