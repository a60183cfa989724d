"""FedAvg (McMahan et al. 2017): the game of one player."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fedveil.core.errors import InputError
from fedveil.core.models import mlp
from fedveil.games.game import DataShape, Game, Move, Player, Stage
from fedveil.games.losses import cross_entropy
from fedveil.games.optimisers import SGD, Optimiser
from fedveil.games.play import Play

Build = Callable[[torch.Generator], nn.Module]


def flat_size(shape: DataShape) -> int:
    """Return the number of features of a table; networks for images are given by their builders."""
    if len(shape.features) != 1:
        raise InputError(f"features have shape {shape.features}: give a network that takes it (network=…)")
    return shape.features[0]


def task_classes(shape: DataShape) -> int:
    """Return the number of the task's classes."""
    if shape.classes is None:
        raise InputError("this game trains on a task, but the data has no target; load it with target=…")
    return shape.classes


@dataclass(frozen=True)
class FedAvg(Game):
    """Train one shared classifier on the task: no defence.

    Attributes:
        hidden: sizes of the hidden layers.
        network: builds another network from a generator, in place of the MLP.
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
