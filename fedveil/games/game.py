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
from fedveil.core.errors import InputError
from fedveil.data.attribute_data import AttributeData, Split
from fedveil.games.optimisers import SGD, Optimiser
from fedveil.games.play import Play

Loss = Callable[[Play], Tensor]


@dataclass(frozen=True)
class DataShape:
    """What a game needs to know of the data to build its networks."""

    features: tuple[int, ...]
    classes: int | None
    attributes: Mapping[str, int]

    @classmethod
    def of(cls, data: AttributeData) -> DataShape:
        """Read the shape off the data."""
        return cls(
            features=tuple(data.x.shape[1:]),
            classes=None if data.y is None else len(data.y.values),
            attributes={name: len(attribute.values) for name, attribute in data.attributes.items()},
        )


@dataclass(frozen=True)
class Player:
    """A network and how it learns.

    Attributes:
        build: makes the network, its weights drawn from the generator it is given.
        optimiser: how it descends.
        second_order: whether a loss differentiates through this network's gradients (a gradient penalty); the
            hand-written passes cannot, so autograd's own layers run then.
    """

    build: Callable[[torch.Generator], nn.Module]
    optimiser: Optimiser = field(default_factory=SGD)
    second_order: bool = False


@dataclass(frozen=True)
class Move:
    """Some players step down one loss; the other players' weights stand still meanwhile.

    The loss returns one value per record, or one per device. It is recomputed for every repetition.

    Attributes:
        players: who steps.
        loss: what they descend.
        repeat: how often, on every batch.
        name: what reports call it.
        others_evaluate: whether the players that stand still are in evaluation mode meanwhile (no dropout, running
            statistics in batch norm); otherwise all are in training mode.
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
        """What the move is called in reports: its name, or its players."""
        return self.name or "+".join(self.players)


@dataclass(frozen=True)
class Stage:
    """One phase of a game.

    Attributes:
        moves: made in this order on every batch.
        shared: players whose weights go to the server and are averaged; all others stay on their device.
        reads: what losses may read: "x", "y", "u" (all attributes) or "u:<name>"; "varies:<name>" says of each record
            whether its device has at least two values of that attribute.
        rounds: how many rounds, unless the run says otherwise.
        local_epochs, batch_size: each device's work per round.
        whole_batches: whether an epoch's last batch is left out where it is partial and not the only one.
        validation: a loss whose mean over validation records judges a round; the best round's shared weights are kept.
            None: the last round's.
        patience: stop after so many rounds without a better one; None: never early.
        restarts: players that start anew, here and on every device, after so many rounds each; their fresh weights
            derive from the seed, the stage and the round.
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
        """Refuse per-device settings that the game cannot play by; `settings` are the federation's."""

    def represent(self, play: Play) -> Tensor:
        """Return what a device releases of its records after training; it may read x only."""
        raise InputError(f"{self.name} releases no representations")

    def outputs(self, play: Play) -> Tensor:
        """Return the model's outputs for records; it may read x only."""
        raise InputError(f"{self.name} has no task head, so no outputs")

    def adversary(self, play: Play, attribute: str) -> Tensor:
        """Return the game's own adversary's logits: the papers' weak, co-trained attacker."""
        raise InputError(f"{self.name} trains no adversary for {attribute!r}")

    def certificates_on(
        self, data: AttributeData, released: Callable[[], ReleasedRecords], attribute: str, seed: int
    ) -> tuple[Certificate, ...]:
        """Return what the form of this game's releases proves about an attribute, whatever an attacker does.

        A certificate holds for the representations that `released` returns, and so for everything that is computed
        from them. It is asked for only where these leave as the game made them, not changed by a shield. A game may
        fit what it needs on training and validation people; test people count only towards the bound itself, so that
        they are independent of everything that was fitted. By default nothing is proved.

        Args:
            data: the federation's data, with the labels of all people.
            released: computes what people release; a game that proves nothing does not call it.
            attribute: the sensitive attribute that the certificates are about.
            seed: all randomness derives from it.
        """
        return ()
