"""Game: stages with players, losses, moves, what is shared and what is read.

A method is a subclass of `Game` in one file: it names its players (a network each), and its stages say who moves by
which loss, which players are averaged by the server, and what may be read.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from fedveil.certificates.certificate import Certificate
from fedveil.core.arrays import FloatArray, IntArray
from fedveil.core.errors import InputError, nearest
from fedveil.data.attribute_data import AttributeData, Split
from fedveil.games.optimisers import SGD, Optimiser
from fedveil.games.play import Play

Loss = Callable[[Play], Tensor]
Build = Callable[[torch.Generator], nn.Module]
"""Builds a network whose first weights are drawn from the given generator."""


@dataclass(frozen=True)
class DataShape:
    """What a game needs to know about the data to build its networks.

    Attributes:
        features: the shape of one record's x.
        classes: how many values the target has; None if the data has no target.
        attributes: how many values each sensitive attribute has, by name.
    """

    features: tuple[int, ...]
    classes: int | None
    attributes: Mapping[str, int]

    @classmethod
    def of(cls, data: AttributeData) -> DataShape:
        """Return the shape of some data."""
        return cls(
            features=tuple(data.x.shape[1:]),
            classes=None if data.y is None else len(data.y.values),
            attributes={name: len(attribute.values) for name, attribute in data.attributes.items()},
        )


def flat_size(shape: DataShape) -> int:
    """Return the number of features of a table; networks for images are given by their builders."""
    if len(shape.features) != 1:
        raise InputError(f"features have shape {shape.features}: give a network that takes it (network=…)")
    return shape.features[0]


def task_classes(shape: DataShape) -> int:
    """Return the number of classes of the task."""
    if shape.classes is None:
        raise InputError("this game trains on a task, but the data has no target; load it with target=…")
    return shape.classes


def attribute_values(shape: DataShape, attribute: str, game: str) -> int:
    """Return how many values an attribute has; one that the data lacks is refused, with the nearest name."""
    if attribute not in shape.attributes:
        raise InputError(f"{game}: no attribute {attribute!r}: {nearest(attribute, shape.attributes)}")
    return shape.attributes[attribute]


@dataclass(frozen=True)
class Player:
    """A network and how it learns.

    Attributes:
        build: builds the network from a generator.
        optimiser: how it descends its loss.
        second_order: whether a loss differentiates through this network's gradients (a gradient penalty); our
            hand-written layers do not support that, so autograd's own are used.
    """

    build: Build
    optimiser: Optimiser = field(default_factory=SGD)
    second_order: bool = False


@dataclass(frozen=True)
class Move:
    """Some players step down one loss while the weights of all other players stay fixed.

    The loss returns one value per record, or one per device. It is recomputed for every repetition.

    Attributes:
        players: who steps.
        loss: what they descend.
        repeat: how often they step on every batch.
        name: the name in reports; by default the players' names.
        others_evaluate: whether the players that do not step are in evaluation mode meanwhile (no dropout, running
            statistics in batch norm); otherwise all players are in training mode.
    """

    players: tuple[str, ...]
    loss: Loss
    repeat: int = 1
    name: str = ""
    others_evaluate: bool = False

    def __post_init__(self) -> None:
        if not self.players or self.repeat < 1:
            raise InputError(f"move {self.title!r}: needs a player and at least one repetition")

    def trains(self, player: str) -> bool:
        """Whether a player is in training mode during this move."""
        return player in self.players or not self.others_evaluate

    @property
    def title(self) -> str:
        """The move's name in reports: its own name, or its players'."""
        return self.name or "+".join(self.players)


@dataclass(frozen=True)
class Stage:
    """One phase of a game.

    Attributes:
        moves: made in this order on every batch.
        shared: players whose weights go to the server and are averaged; all others stay on their device.
        reads: what losses may read: "x", "y", "u" (all attributes) or "u:<name>"; "varies:<name>" says for each record
            whether its device has at least two values of that attribute.
        name: the stage's name in reports and in the derivation of randomness.
        rounds: how many rounds; None for as many as the run is asked to play.
        local_epochs: passes over its records that a device makes in a round.
        batch_size: records in one step.
        whole_batches: whether an epoch's last batch is left out if it is partial and not the only one.
        patience: stop after this many rounds without a better one; None for never.
        validation: a loss whose mean over validation records judges a round; the best round's shared weights are kept.
            With None, the last round's are.
        restarts: players that start again from fresh weights, on the server and on every device, each after its number
            of rounds; the fresh weights derive from the seed, the stage and the round.
    """

    moves: tuple[Move, ...]
    shared: frozenset[str]
    reads: frozenset[str]
    name: str = "main"
    rounds: int | None = None
    local_epochs: int = 1
    batch_size: int = 32
    whole_batches: bool = False
    patience: int | None = None
    validation: Loss | None = None
    restarts: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.batch_size < 1 or self.local_epochs < 1:
            raise InputError(
                f"stage {self.name!r}: batch size {self.batch_size} and local epochs {self.local_epochs} "
                "must be at least 1"
            )
        if self.patience is not None and self.validation is None:
            raise InputError(f"stage {self.name!r}: patience needs a validation loss to judge by")
        if any(rounds < 1 for rounds in self.restarts.values()):
            raise InputError(f"stage {self.name!r}: a restart comes after at least 1 round")

    @property
    def players(self) -> tuple[str, ...]:
        """All players that move."""
        return tuple(dict.fromkeys(player for move in self.moves for player in move.players))

    def sends(self, player: str) -> bool:
        """Whether a player moves in this stage and its update goes to the server."""
        return player in self.shared and player in self.players


@dataclass(frozen=True, eq=False)
class ReleasedRecords:
    """What the people of each split release after training, and which device sent each record.

    Attributes:
        values: representations by split, (records, d), in the data's order.
        senders: a device number for each of these records.
        dealt_at_random: whether the sender of a record was drawn at random, so that the sender alone says nothing
            about the record's labels.
    """

    values: Mapping[Split, FloatArray]
    senders: Mapping[Split, IntArray]
    dealt_at_random: bool = field(default=False, kw_only=True)

    @property
    def several_senders(self) -> bool:
        """Whether the training records come from more than one sender, whose encoders may differ."""
        return len(np.unique(self.senders[Split.TRAIN])) > 1


class Game(ABC):
    """Players and stages, and what leaves a device when the game is over."""

    name: str = "game"

    @abstractmethod
    def players(self, shape: DataShape) -> Mapping[str, Player]:
        """Name the players and the networks they start with."""

    @abstractmethod
    def stages(self, shape: DataShape) -> tuple[Stage, ...]:
        """Say how the game is played."""

    def check_settings(self, settings: Mapping[str, float | npt.ArrayLike]) -> None:  # noqa: B027
        """Refuse per-device settings that the game cannot use; `settings` are the federation's."""

    def represent(self, play: Play) -> Tensor:
        """Return what a device releases of its records after training; it may read x only."""
        raise InputError(f"{self.name} releases no representations")

    def outputs(self, play: Play) -> Tensor:
        """Return the model's outputs for records; it may read x only."""
        raise InputError(f"{self.name} has no task head, so no outputs")

    def adversary(self, play: Play, attribute: str) -> Tensor:
        """Return the logits of the adversary that the game itself trains: the weak, co-trained attacker of papers."""
        raise InputError(f"{self.name} trains no adversary for {attribute!r}")

    def certificates_on(
        self, data: AttributeData, released: Callable[[], ReleasedRecords], attribute: str, seed: int
    ) -> tuple[Certificate, ...]:
        """Return what the form of this game's releases proves about an attribute, whatever an attacker does.

        A certificate holds for the representations that `released` returns, and so for everything that is computed
        from them. It is requested only if these leave the device unchanged by any shield. A game may
        fit what it needs on training and validation people; test people count only towards the bound itself, so that
        they are independent of everything that was fitted. By default nothing is proved.

        Args:
            data: the federation's data, with the labels of all people.
            released: computes what people release; a game that proves nothing does not call it.
            attribute: the sensitive attribute that the certificates are about.
            seed: all randomness derives from it.
        """
        return ()
