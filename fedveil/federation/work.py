"""What one round asks of an engine, and what the engine returns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fedveil.core import plugins
from fedveil.core.arrays import IntArray
from fedveil.core.errors import InputError
from fedveil.core.randomness import child_seed, numpy_generator
from fedveil.federation.records import readable
from fedveil.federation.weights import Seat
from fedveil.games.game import Stage

if TYPE_CHECKING:
    from fedveil.federation.run import Run


ENGINES = ("stacked", "plain")
"""Engines that play in this process; others are plug-ins of the group fedveil.engines."""


def alternatives_to_engine(name: str) -> str | None:
    """Return the engines that exist, as text, if there is none of this name; otherwise None."""
    if name in ENGINES:  # reading the metadata of all installed packages takes far longer than all other checks
        return None
    engines = [*ENGINES, *plugins.registered("fedveil.engines")]
    return None if name in engines else f"{', '.join(engines[:-1])} or {engines[-1]}"


class DivergedError(InputError):
    """A loss or a weight became NaN or infinite: the round is refused, and the last good state is kept."""


@dataclass(frozen=True, eq=False)
class Work:
    """One round of one stage on the sampled devices.

    Attributes:
        stage: who moves, by which loss, reading what.
        seats: all players by name.
        data: "x", "y", "u:<name>" of all training records that the stage may read.
        rows: each sampled device's records.
        devices: the sampled devices' numbers.
        seed: the federation's seed; the round's randomness derives from it and `round`.
        round: the round's number in its stage.
        batch_sizes: each sampled device's batch size.
        epochs: each sampled device's passes over its records.
        rate_scales: each sampled device's factor on every learning rate; None for 1 on all devices.
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
        """Return the record numbers of each step of a device, (steps, batch size); −1 fills up a partial batch."""
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
        """Return one seed per sampled device for the draws of this round's losses."""
        return self._seeds("losses")

    def _seeds(self, purpose: str) -> Tensor:
        seeds = [child_seed(self.seed, purpose, self.stage.name, self.round, int(device)) for device in self.devices]
        return torch.tensor(seeds, dtype=torch.int64)


def work_of(run: Run, stage: Stage, number: int, devices: IntArray) -> Work:
    """Return the work of one round of a stage on some devices of a run."""
    federation = run.federation
    sizes, epochs = federation.batch_sizes, federation.local_epochs
    return Work(
        stage=stage,
        seats=run.seats,
        data=readable(run, stage.reads),
        rows=[federation.partition.device(int(device)) for device in devices],
        devices=devices,
        seed=federation.seed,
        round=number,
        batch_sizes=np.full(len(devices), stage.batch_size) if sizes is None else np.asarray(sizes)[devices],
        epochs=np.full(len(devices), stage.local_epochs) if epochs is None else np.asarray(epochs)[devices],
        rate_scales=None if federation.rate_scales is None else np.asarray(federation.rate_scales)[devices],
        settings={name: federation.setting(values, devices) for name, values in federation.settings.items()},
    )


def device_states(run: Run, stage: Stage, devices: IntArray) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return each player's state on some devices, and the optimiser memory of the players that stay there."""
    states, memories = {}, {}
    for name in run.seats:
        if name in run.local and name not in stage.shared:
            whole = run.local[name].get(devices).to(run.federation.torch_device)
            size = run.layouts[name].size
            states[name] = whole[:, :size]
            if name in stage.players:
                memories[name] = whole[:, size:]
        else:
            states[name] = run.shared[name].expand(len(devices), -1)
    return states, memories


@dataclass(frozen=True, eq=False)
class Outcome:
    """What the sampled devices have after a round.

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
    """Plays one round on the sampled devices. There are two engines, with the same results."""

    name: str

    @abstractmethod
    def play(self, work: Work, states: Mapping[str, Tensor], memories: Mapping[str, Tensor]) -> Outcome:
        """Play a round from the devices' states (all players) and optimiser memories (those that persist)."""

    def paths(self, seats: Mapping[str, Seat]) -> dict[str, str]:
        """Return which path each player's network takes."""
        return dict.fromkeys(seats, self.name)


def refuse_divergence(work: Work, trace: npt.NDArray[np.floating], states: Mapping[str, Tensor]) -> None:
    """Raise if a loss or a weight is not finite, naming the player, the device and the first such step.

    `trace` holds the losses, (steps, moves, devices), and is not NaN for devices that did not take part in a step.
    """
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
