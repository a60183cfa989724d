"""Fleet: where the devices of a round are: all in this process or, on Flower, each on its own machine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch

from fedveil.core.arrays import IntArray
from fedveil.federation.exchange import Sent, send_updates
from fedveil.federation.work import device_states, work_of

if TYPE_CHECKING:
    from fedveil.federation.run import Run
    from fedveil.games.game import Stage


@dataclass(frozen=True, eq=False)
class Answers:
    """The devices' answers in a round.

    Attributes:
        devices: those that answered.
        sent: their updates as they left, by position among them.
        records: how many training records each has.
        losses: mean loss of each move on each, (devices, moves).
        steps: how many batches each went through.
    """

    devices: IntArray
    sent: Sent
    records: IntArray
    losses: npt.NDArray[np.float64]
    steps: IntArray


class Fleet(ABC):
    """Lets devices play a round. What stays on a device stays in the fleet."""

    @abstractmethod
    def present(self, run: Run, devices: IntArray) -> IntArray:
        """Return which of the sampled devices can take part."""

    @abstractmethod
    def play(self, run: Run, stage: Stage, number: int, devices: IntArray) -> Answers:
        """Play a round on these devices; their local players exist already."""


class HomeFleet(Fleet):
    """All devices in this process, played by the run's engine; local players are kept by the run."""

    def present(self, run: Run, devices: IntArray) -> IntArray:
        """Leave out devices without records."""
        held = [len(run.federation.partition.device(int(device))) > 0 for device in devices]
        return devices[held] if len(devices) else devices

    def play(self, run: Run, stage: Stage, number: int, devices: IntArray) -> Answers:
        """Train on every device, shield what leaves, and keep what does not."""
        work = work_of(run, stage, number, devices)
        outcome = run.engine.play(work, *device_states(run, stage, devices))
        sent = send_updates(run, work, outcome)
        for name, player in run.local.items():
            if name in outcome.memories:
                player.put(devices, torch.cat([outcome.states[name], outcome.memories[name]], dim=1))
        records = np.array([len(rows) for rows in work.rows], dtype=np.int64)
        return Answers(devices, sent, records, outcome.losses, outcome.steps)
