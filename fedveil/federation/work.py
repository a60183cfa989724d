"""What one round asks of an engine, and what the engine gives back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from fedveil.core.arrays import IntArray
from fedveil.core.errors import InputError
from fedveil.core.randomness import child_seed, numpy_generator
from fedveil.games.game import Player, Stage


class DivergedError(InputError):
    """A loss or a weight became NaN or infinite: the round is refused and the last good state kept."""


@dataclass(frozen=True)
class Seat:
    """A player at the table: its prepared template network and how it learns."""

    template: nn.Module
    player: Player


@dataclass(frozen=True, eq=False)
class Work:
    """One round of one stage on the sampled devices.

    Attributes:
        stage: who moves, by which loss, reading what.
        seats: all players by name.
        data: "x", "y", "u:<name>" of all training records that the stage may read.
        rows: each sampled device's records.
        devices: the sampled devices' numbers.
        seed, round: where the round's randomness derives from.
        batch_sizes, epochs: each sampled device's own.
        rate_scales: each sampled device's factor on every learning rate; None: 1 for all.
        settings: per-device hyper-parameters by name, one value per sampled device.
    """

    stage: Stage
    seats: Mapping[str, Seat]
    data: Mapping[str, Tensor]
    rows: list[IntArray]
    devices: IntArray
    seed: int
    round: int
    batch_sizes: IntArray
    epochs: IntArray
    rate_scales: npt.NDArray[np.float64] | None = None
    settings: Mapping[str, npt.NDArray[np.float64]] = field(default_factory=dict)

    def batches(self, position: int) -> IntArray:
        """Return the record numbers of a device's every step, (steps, batch size), −1 where a batch is partial."""
        rows = self.rows[position]
        size = min(int(self.batch_sizes[position]), len(rows))
        epochs = int(self.epochs[position])
        rng = numpy_generator(self.seed, "batches", self.stage.name, self.round, int(self.devices[position]))
        order = rng.permuted(np.broadcast_to(rows, (epochs, len(rows))), axis=1)
        if self.stage.whole_batches:
            order = order[:, : len(rows) - len(rows) % size]
        steps = -(-order.shape[1] // size)
        padded = np.full((epochs, steps * size), -1, dtype=np.int64)
        padded[:, : order.shape[1]] = order
        return padded.reshape(epochs * steps, size)

    def dropout_seeds(self) -> Tensor:
        """Return one seed per sampled device for this round's counted randomness."""
        return self._seeds("dropout")

    def loss_seeds(self) -> Tensor:
        """Return one seed per sampled device for what this round's losses draw."""
        return self._seeds("losses")

    def _seeds(self, purpose: str) -> Tensor:
        names = [child_seed(self.seed, purpose, self.stage.name, self.round, int(device)) for device in self.devices]
        return torch.tensor(names, dtype=torch.int64)


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a round made of the sampled devices.

    Attributes:
        states: each moving player's flat weights after the round, (devices, size).
        memories: each moving player's optimiser memory, (devices, …), for players that persist.
        losses: mean loss of each move on each device, (devices, moves).
        steps: how many batches each device went through.
    """

    states: dict[str, Tensor]
    memories: dict[str, Tensor]
    losses: npt.NDArray[np.float64]
    steps: IntArray


class Engine(ABC):
    """Plays one round on the sampled devices; two of them do, with the same results."""

    name: str

    @abstractmethod
    def play(self, work: Work, states: Mapping[str, Tensor], memories: Mapping[str, Tensor]) -> Outcome:
        """Play a round from the devices' states (all players) and optimiser memories (those that persist)."""

    def paths(self, seats: Mapping[str, Seat]) -> dict[str, str]:
        """Say which path each player's network takes."""
        return dict.fromkeys(seats, self.name)


def refuse_divergence(work: Work, trace: npt.NDArray[np.floating], states: Mapping[str, Tensor]) -> None:
    """Name the first player, device and step whose loss is not finite; `trace` is (steps, moves, devices), NaN-free
    where a device did not take part."""
    bad = ~np.isfinite(trace)
    if bad.any():
        step, move, position = (int(i[0]) for i in np.nonzero(bad))
        players = work.stage.moves[move].players
        raise DivergedError(
            f"round {work.round} refused: the loss of player {'+'.join(players)!r} became "
            f"{trace[step, move, position]} on device {int(work.devices[position])} at step {step}; the state before "
            f"the round is kept. Lower its learning rate, or look at that device's data"
        )
    for name, state in states.items():
        finite = torch.isfinite(state).all(dim=1)
        if not bool(finite.all()):
            device = int(work.devices[int((~finite).nonzero()[0])])
            raise DivergedError(
                f"round {work.round} refused: weights of player {name!r} became infinite or NaN on device {device}; "
                f"the state before the round is kept. Lower its learning rate, or look at that device's data"
            )
