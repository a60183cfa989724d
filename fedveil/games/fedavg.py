"""FedAvg (McMahan et al. 2017): the game of one player."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from fedveil.core.models import mlp
from fedveil.games.game import Build, DataShape, Game, Move, Player, Stage, flat_size, task_classes
from fedveil.games.losses import cross_entropy
from fedveil.games.optimisers import SGD, Optimiser
from fedveil.games.play import Play


@dataclass(frozen=True)
class FedAvg(Game):
    """Train one shared classifier on the task: no defence.

    Attributes:
        hidden: sizes of the hidden layers.
        network: builds another network from a generator, in place of the fully connected one.
        optimiser: how the model descends its loss.
        local_epochs: passes over its records that a device makes in a round.
        batch_size: records in one step.
        patience: stop after this many rounds without a lower validation loss; none for never.
    """

    hidden: tuple[int, ...] = (64, 128)
    network: Build | None = None
    optimiser: Optimiser = SGD(0.01)
    local_epochs: int = 1
    batch_size: int = 32
    patience: int | None = None
    name = "fedavg"

    def players(self, shape: DataShape) -> Mapping[str, Player]:
        """One player: the whole model."""
        if self.network is not None:
            return {"model": Player(self.network, self.optimiser)}
        sizes = [flat_size(shape), *self.hidden, task_classes(shape)]
        return {"model": Player(lambda generator: mlp(sizes, generator), self.optimiser)}

    def stages(self, shape: DataShape) -> tuple[Stage, ...]:
        """Every device descends the task's cross-entropy."""
        return (
            Stage(
                moves=(Move(("model",), task_loss),),
                shared=frozenset({"model"}),
                reads=frozenset({"x", "y"}),
                local_epochs=self.local_epochs,
                batch_size=self.batch_size,
                validation=task_loss,
                patience=self.patience,
            ),
        )

    def outputs(self, play: Play) -> Tensor:
        """The task's logits."""
        return play("model", play.x)


def task_loss(play: Play) -> Tensor:
    """Cross-entropy of the one network on the task."""
    return cross_entropy(play("model", play.x), play.y)
