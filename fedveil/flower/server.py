"""The server's side of a game on Flower: a ServerApp, and the fleet that plays rounds with the connected nodes."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from flwr.app import Context, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid, ServerApp
from torch import Tensor

from fedveil.core.arrays import IntArray
from fedveil.core.errors import InputError
from fedveil.federation.exchange import Sent
from fedveil.federation.fleet import Answers, Fleet
from fedveil.flower import protocol
from fedveil.studies.cell_run import play

if TYPE_CHECKING:
    from fedveil.data import AttributeData
    from fedveil.federation.progress import RoundRecord
    from fedveil.federation.run import Run
    from fedveil.games.game import Stage

_PAUSE = 0.5
"""Seconds between two checks of which nodes are connected."""

_log = logging.getLogger("flwr")


def server_app(study: str | Path, *, data: Callable[[], AttributeData] | None = None) -> ServerApp:
    """Return the ServerApp of a study's games.

    Its run config may set `method`, `strength` and `seed` (default: the study's first), `least-nodes` (default: all
    devices), `round-seconds` (default: 600), `every-answer` (end the run if an answer is missing), `out` (a folder for
    weights, rounds and state) and `reveal` (ask nodes for their local players at the end: for research on one machine).

    Args:
        study: the study's file, the same as the nodes'.
        data: returns the server's records, for shapes and validation; None: the study's data.
    """
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        config = context.run_config
        setup = protocol.Setup.read(study, config)
        devices = setup.study.federation.devices
        least = int(config.get("least-nodes") or devices)
        if not 1 <= least <= devices:
            raise InputError(f"run config: least-nodes must lie between 1 and {devices}; got {least}")
        seconds = float(config.get("round-seconds") or 600)
        strict = config.get("every-answer") is True
        fleet = FlowerFleet(grid, least=least, seconds=seconds, report=_log.info, every_answer=strict)
        run = setup.run(None if data is None else data(), fleet)
        out = str(config.get("out") or "")
        folder = Path(out) if out else None
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)

        def after_round(record: RoundRecord) -> None:
            losses = ", ".join(f"{name} {loss:.4f}" for name, loss in record.losses.items())
            _log.info("%s, round %d: %d devices, %s", record.stage, record.round, record.devices, losses)
            if folder is not None:
                with (folder / "metrics.jsonl").open("a", encoding="utf-8") as lines:
                    lines.write(json.dumps(record.as_dict()) + "\n")

        play(setup.study, setup.method, run, [after_round])
        if config.get("reveal"):
            fleet.reveal(run)
        if folder is not None:
            run.save(folder / "checkpoint")
            _log.info("written: %s", folder.resolve())

    return app


class FlowerFleet(Fleet):
    """Devices as Flower nodes: every device is a node that has stated which device it is.

    A node that has disconnected, does not answer in time, or answers with an error takes no part in a round; a node
    that connects later takes part from then on.

    Args:
        grid: the server's connection to the nodes.
        least: how many nodes must be connected before the first round.
        seconds: how long to wait, for nodes at the start and for answers in each round.
        report: called with a line about each node that connects, disconnects or fails.
        every_answer: stop if an answer is missing; a study's cell must not count as trained if nodes failed.
    """

    def __init__(
        self,
        grid: Grid,
        *,
        least: int = 1,
        seconds: float = 600.0,
        report: Callable[[str], None],
        every_answer: bool = False,
    ) -> None:
        self.grid, self.least, self.seconds, self.report = grid, least, seconds, report
        self.every_answer = every_answer
        self.nodes: dict[int, int] = {}  # device → node
        self.waiting: dict[int, int] = {}  # node → device, for nodes that claim a device that another node still has
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
                    f"only {len(self.nodes)} of the {least} nodes needed were connected within {self.seconds:g} s; "
                    "start SuperNodes with a partition-id each"
                )
            time.sleep(_PAUSE)
        return np.array([device for device in devices if int(device) in self.nodes], dtype=np.int64)

    def _look(self, run: Run) -> None:
        """Ask new nodes which device they are; forget nodes that have disconnected."""
        connected = set(self.grid.get_node_ids())
        for gone in [device for device, node in self.nodes.items() if node not in connected]:
            del self.nodes[gone]
            self.report(f"device {gone} has disconnected")
        for node, device in list(self.waiting.items()):
            if node not in connected:
                del self.waiting[node]
            elif device not in self.nodes:  # a machine that was restarted while its first node still counted
                del self.waiting[node]
                self._admit(device, node)
        new = connected - set(self.nodes.values()) - set(self.waiting) - self.refused
        count = len(run.federation.partition)
        for reply in self._exchange(RecordDict(), new, "query"):
            node = reply.metadata.src_node_id
            if reply.has_error():
                self._refuse(node, f"does not say which device it is: {reply.error.reason}")
                continue
            metrics = reply.content.metric_records.get(protocol.METRICS, MetricRecord())
            claimed, devices = metrics.get(protocol.PARTITION), metrics.get(protocol.PARTITIONS)
            if not isinstance(claimed, int) or not 0 <= claimed < count or devices not in (0, count):
                self._refuse(node, f"says that it is device {claimed} of {devices}, but the study has {count}")
            elif claimed in self.nodes:
                self.waiting[node] = claimed
                self.report(f"node {node} takes no part while another node is connected as device {claimed}")
            else:
                self._admit(claimed, node)

    def _admit(self, device: int, node: int) -> None:
        self.nodes[device] = node
        self.report(f"device {device} is connected")

    def _refuse(self, node: int, why: str) -> None:
        self.refused.add(node)
        self.report(f"node {node} takes no part: it {why}")

    def _missed(self, line: str) -> None:
        if self.every_answer:
            raise InputError(line)
        self.report(line)

    def _exchange(self, content: RecordDict, nodes: Iterable[int], kind: str) -> list[Message]:
        """Send the same content to some nodes, and return the replies that came in time."""
        messages = [Message(content, dst_node_id=node, message_type=kind) for node in nodes]
        return list(self.grid.send_and_receive(messages, timeout=self.seconds)) if messages else []

    def play(self, run: Run, stage: Stage, number: int, devices: IntArray) -> Answers:
        """Have nodes play a round; nodes whose answer cannot be used are reported and left out."""
        device_of = {self.nodes[int(device)]: int(device) for device in devices}
        replies = self._exchange(protocol.order(run, stage, number), device_of, "train")
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
        moving = protocol.moved(run, stage)
        sent = torch.cat([run.shared[name].cpu() for name in moving]) if moving else torch.zeros(0)
        updates: list[Tensor] = []
        figures: list[_Figures] = []
        speaking: list[int] = []
        devices: list[int] = []
        for device in sorted(answered):
            content = answered[device].content
            try:
                device_figures = _Figures.of(content, len(stage.moves))
                update = None
                if moving and protocol.SHARED in content.array_records:
                    update = protocol.joined(content.array_records[protocol.SHARED], run, stage) - sent
            except (InputError, KeyError, TypeError, ValueError) as fault:
                self._missed(f"device {device}: its answer in round {number} cannot be used: {fault}")
                continue
            if update is not None:
                speaking.append(len(devices))
                updates.append(update)
            devices.append(device)
            figures.append(device_figures)
        damages = [row.damage for row in figures if row.damage]
        mean = {key: float(np.mean([damage[key] for damage in damages])) for key in damages[0]} if damages else {}
        rows = torch.stack(updates).to(run.federation.torch_device) if updates else torch.zeros(0, len(sent))
        total = int(sum(damage.get("bytes", 0) for damage in damages)) or rows.numel() * rows.element_size()
        return Answers(
            np.array(devices, dtype=np.int64),
            Sent(rows, np.array(speaking, dtype=np.int64), mean, total),
            np.array([row.records for row in figures], dtype=np.int64),
            np.array([row.losses for row in figures], dtype=np.float64).reshape(len(figures), len(stage.moves)),
            np.array([row.steps for row in figures], dtype=np.int64),
        )

    def reveal(self, run: Run) -> None:
        """Ask nodes for their local players, for research on one machine; nodes that do not allow it refuse."""
        device_of = {node: device for device, node in self.nodes.items()}
        for reply in self._exchange(RecordDict(), device_of, "query.reveal"):
            device = device_of[reply.metadata.src_node_id]
            if reply.has_error():
                raise InputError(f"device {device} does not reveal its local players: {reply.error.reason}")
            for name, state in protocol.flat_states(reply.content.array_records[protocol.LOCAL]).items():
                run.local[name].put(np.array([device]), state[None])


@dataclass(frozen=True)
class _Figures:
    """A device's figures for one round, with damage only if its node allows that."""

    records: int
    steps: int
    losses: list[float]
    damage: dict[str, float]

    @classmethod
    def of(cls, content: RecordDict, moves: int) -> _Figures:
        metrics = content.metric_records[protocol.METRICS]
        records, steps, losses = metrics["num-examples"], metrics["steps"], metrics["losses"]
        if not isinstance(records, int) or not isinstance(steps, int) or min(records, steps) < 0:
            raise InputError("num-examples and steps must be whole numbers from 0 up")
        if not isinstance(losses, list) or len(losses) != moves or not np.isfinite(losses).all():
            raise InputError(f"losses must be {moves} finite numbers")
        damage = {
            name.removeprefix("damage-"): float(value)
            for name, value in metrics.items()
            if name.startswith("damage-") and isinstance(value, int | float)
        }
        return cls(records, steps, [float(loss) for loss in losses], damage)
