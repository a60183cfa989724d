"""Devices as Flower nodes: the server's side of a game."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from flwr.app import Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from torch import Tensor

from fedveil.core.arrays import IntArray
from fedveil.core.errors import InputError
from fedveil.federation.exchange import Sent
from fedveil.federation.fleet import Answers, Fleet
from fedveil.flower import wire

if TYPE_CHECKING:
    from collections.abc import Callable

    from fedveil.federation.run import Run
    from fedveil.games.game import Stage

_PAUSE = 0.5
"""Seconds between two looks at who is there."""


class FlowerFleet(Fleet):
    """Every device is a node that has said which one it is.

    Nodes that are gone, do not answer in time, or answer with an error take no part in a round; nodes that come later
    take part from then on.

    Args:
        grid: the server's way to the nodes.
        least: how many nodes there must be before the first round.
        seconds: how long to wait, for nodes at the start and for answers in each round.
        say: told about nodes in a line each.
        every_answer: refuse to go on without one; a study's cell must not pass for trained where nodes failed.
    """

    def __init__(
        self,
        grid: Grid,
        *,
        least: int = 1,
        seconds: float = 600.0,
        say: Callable[[str], None],
        every_answer: bool = False,
    ) -> None:
        self.grid, self.least, self.seconds, self.say, self.every_answer = grid, least, seconds, say, every_answer
        self.nodes: dict[int, int] = {}
        self.waiting: dict[int, int] = {}  # nodes that say they are a device which another node is, or was until now
        self.refused: set[int] = set()

    def present(self, run: Run, devices: IntArray) -> IntArray:
        """Return the sampled devices whose nodes are connected; before the first round, wait for enough of them."""
        deadline = time.monotonic() + self.seconds
        least = self.least if not run.history else 1
        while True:
            self._look(run)
            if len(self.nodes) >= least:
                break
            if time.monotonic() > deadline:
                raise InputError(
                    f"{len(self.nodes)} of the {least} nodes that are needed were there within {self.seconds:g} s; "
                    "start SuperNodes with a partition-id each"
                )
            time.sleep(_PAUSE)
        return np.array([device for device in devices if int(device) in self.nodes], dtype=np.int64)

    def _look(self, run: Run) -> None:
        """Ask nodes that have just come which device they are; forget those that are gone."""
        connected = set(self.grid.get_node_ids())
        for gone in [device for device, node in self.nodes.items() if node not in connected]:
            del self.nodes[gone]
            self.say(f"device {gone} is gone")
        for node, place in list(self.waiting.items()):
            if node not in connected:
                del self.waiting[node]
            elif place not in self.nodes:  # a machine that was started anew, whose first node was still counted
                del self.waiting[node]
                self._admit(place, node)
        fresh = connected - set(self.nodes.values()) - set(self.waiting) - self.refused
        count = len(run.federation.partition)
        for reply in self._exchange(RecordDict(), dict.fromkeys(fresh), "query"):
            node = reply.metadata.src_node_id
            if reply.has_error():
                self._refuse(node, f"does not say which device it is: {reply.error.reason}")
                continue
            told = reply.content.metric_records.get(wire.METRICS, MetricRecord())
            device, devices = told.get(wire.PARTITION), told.get(wire.PARTITIONS)
            if not isinstance(device, int) or not 0 <= device < count or devices not in (0, count):
                self._refuse(node, f"says that it is device {device} of {devices}, and there are {count}")
            elif device in self.nodes:
                self.waiting[node] = device
                self.say(f"node {node} takes no part while another node is there that says it is device {device}, too")
            else:
                self._admit(device, node)

    def _admit(self, device: int, node: int) -> None:
        self.nodes[device] = node
        self.say(f"device {device} is here")

    def _refuse(self, node: int, why: str) -> None:
        self.refused.add(node)
        self.say(f"node {node} takes no part: it {why}")

    def _missed(self, line: str) -> None:
        if self.every_answer:
            raise InputError(line)
        self.say(line)

    def _exchange(self, content: RecordDict, nodes: dict[int, None], kind: str) -> list[Message]:
        """Send the same to some nodes, and return what came back in time."""
        if not nodes:
            return []
        messages = [Message(content, dst_node_id=node, message_type=kind) for node in nodes]
        return list(self.grid.send_and_receive(messages, timeout=self.seconds))

    def play(self, run: Run, stage: Stage, number: int, devices: IntArray) -> Answers:
        """Have nodes play a round; those whose answer cannot be used are named, and left out."""
        device_of = {self.nodes[int(device)]: int(device) for device in devices}
        replies = self._exchange(wire.order(run, stage, number), dict.fromkeys(device_of), "train")
        answered: dict[int, Message] = {}
        for reply in replies:
            device = device_of.get(reply.metadata.src_node_id)
            if device is None:
                continue
            if reply.has_error():
                self._missed(f"device {device} sent nothing in round {number}: {reply.error.reason}")
            else:
                answered[device] = reply
        for device in devices:
            if int(device) not in {*answered, *(device_of.get(reply.metadata.src_node_id) for reply in replies)}:
                self._missed(f"device {device} did not answer in round {number}")
        return self._gathered(run, stage, number, answered)

    def _gathered(self, run: Run, stage: Stage, number: int, answered: dict[int, Message]) -> Answers:
        moving = wire.moved(run, stage)
        sent = torch.cat([run.shared[name].cpu() for name in moving]) if moving else torch.zeros(0)
        updates: list[Tensor] = []
        figures: list[_Figures] = []
        speaking: list[int] = []
        devices: list[int] = []
        for device in sorted(answered):
            content = answered[device].content
            try:
                told = _Figures.of(content, len(stage.moves))
                update = None
                if moving and wire.SHARED in content.array_records:
                    update = wire.joined(content.array_records[wire.SHARED], run, stage) - sent
            except (InputError, KeyError, TypeError, ValueError) as fault:
                self._missed(f"device {device}: its answer in round {number} cannot be used: {fault}")
                continue
            if update is not None:
                speaking.append(len(devices))
                updates.append(update)
            devices.append(device)
            figures.append(told)
        damages = [one.damage for one in figures if one.damage]
        mean = {key: float(np.mean([one[key] for one in damages])) for key in damages[0]} if damages else {}
        rows = torch.stack(updates).to(run.federation.torch_device) if updates else torch.zeros(0, len(sent))
        total = int(sum(one.get("bytes", 0) for one in damages)) or rows.numel() * rows.element_size()
        return Answers(
            np.array(devices, dtype=np.int64),
            Sent(rows, np.array(speaking, dtype=np.int64), mean, total),
            np.array([one.records for one in figures], dtype=np.int64),
            np.array([one.losses for one in figures], dtype=np.float64).reshape(len(figures), len(stage.moves)),
            np.array([one.steps for one in figures], dtype=np.int64),
        )

    def reveal(self, run: Run) -> None:
        """Ask nodes for their local players: research on one machine. Nodes whose config does not allow it refuse."""
        device_of = {node: device for device, node in self.nodes.items()}
        for reply in self._exchange(RecordDict(), dict.fromkeys(device_of), "query.reveal"):
            device = device_of[reply.metadata.src_node_id]
            if reply.has_error():
                raise InputError(f"device {device} does not reveal its local players: {reply.error.reason}")
            for name, state in wire.flat_states(reply.content.array_records[wire.LOCAL]).items():
                run.local[name].put(np.array([device]), state[None])


@dataclass(frozen=True)
class _Figures:
    """What a device tells of itself; damage only where its node allows that."""

    records: int
    steps: int
    losses: list[float]
    damage: dict[str, float]

    @classmethod
    def of(cls, content: RecordDict, moves: int) -> _Figures:
        told = content.metric_records[wire.METRICS]
        records, steps, losses = told["num-examples"], told["steps"], told["losses"]
        if not isinstance(records, int) or not isinstance(steps, int) or min(records, steps) < 0:
            raise InputError("num-examples and steps must be whole numbers from 0 up")
        if not isinstance(losses, list) or len(losses) != moves or not np.isfinite(losses).all():
            raise InputError(f"losses must be {moves} finite numbers")
        damage = {
            name.removeprefix("damage-"): float(value)
            for name, value in told.items()
            if name.startswith("damage-") and isinstance(value, int | float)
        }
        return cls(records, steps, [float(loss) for loss in losses], damage)
