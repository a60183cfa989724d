"""A node's side of a game on Flower: one device, whose local players are kept in the node's state."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from fedveil.core.errors import InputError
from fedveil.federation.exchange import segments_of
from fedveil.federation.fleet import Answers, HomeFleet
from fedveil.federation.rounds import seat_locally
from fedveil.flower import protocol
from fedveil.flower.secret_noise import keep_updates_secret
from fedveil.shields.shield import members
from fedveil.shields.unread import Unread

if TYPE_CHECKING:
    from flwr.clientapp.typing import Mod

    from fedveil.data import AttributeData
    from fedveil.federation.run import Run
    from fedveil.games.game import Stage

OwnRecords = Callable[[Context], "AttributeData"]
_LOCAL, _RESTARTED, _SECRETS = "fedveil.local", "fedveil.restarted", "fedveil.secrets"


def client_app(study: str | Path, *, data: OwnRecords | None = None, mods: list[Mod] | None = None) -> ClientApp:
    """Return the ClientApp of a study's games: TAPPFL, adversarial training, Attri-Fed, or any other.

    The study's shield works on every update before it leaves; if it cannot run, nothing is sent. A site's policy is
    enforced by `shield_mod`, given among the mods.

    Args:
        study: the study's file, the same as the server's.
        data: returns this node's records; None: its part of the study's data, by the node config's `partition-id`.
        mods: Flower mods, the outermost first.
    """
    app = ClientApp(mods=mods or [])

    @app.query()
    def who(message: Message, context: Context) -> Message:
        metrics = MetricRecord()
        metrics[protocol.PARTITION] = _device(context)
        metrics[protocol.PARTITIONS] = int(context.node_config.get(protocol.PARTITIONS, 0))
        return Message(RecordDict({protocol.METRICS: metrics}), reply_to=message)

    @app.query("reveal")
    def reveal(message: Message, context: Context) -> Message:
        if context.node_config.get(protocol.REVEAL) is not True:
            raise InputError(
                f"this node keeps its local players: its node config does not set {protocol.REVEAL} = true"
            )
        local_players = context.state.array_records.get(_LOCAL, ArrayRecord())
        return Message(RecordDict({protocol.LOCAL: ArrayRecord(dict(local_players))}), reply_to=message)

    @app.train()
    def train(message: Message, context: Context) -> Message:
        setup = protocol.Setup.read(study, context.run_config)
        device = _device(context)
        run = setup.run() if data is None else setup.run(data(context), holder=device)
        return Message(_trained(run, device, message.content, context), reply_to=message)

    return app


def _device(context: Context) -> int:
    device = context.node_config.get(protocol.PARTITION)
    if not isinstance(device, int) or isinstance(device, bool) or device < 0:
        raise InputError(f"node config: {protocol.PARTITION} must be the device's number, from 0 up; got {device!r}")
    return device


def _trained(run: Run, device: int, message: RecordDict, context: Context) -> RecordDict:
    """Play one round on this node's device."""
    if device >= len(run.federation.partition):
        raise InputError(
            f"node config: {protocol.PARTITION} is {device}, but the study has {len(run.federation.partition)} devices"
        )
    settings = message.config_records[protocol.ORDER]
    index, number = int(str(settings["stage"])), int(str(settings["round"]))
    if not 0 <= index < len(run.stages) or number < 1:
        raise InputError(f"the server asks for round {number} of stage {index}, but this game has {len(run.stages)}")
    stage = run.stages[index]
    run.progress.stage, run.progress.round = index, number - 1
    received = protocol.joined(message.array_records[protocol.SHARED], run, stage)
    if context.node_config.get(protocol.REVEAL) is not True:
        keep_updates_secret(run.shield)  # the server knows the study's seed, and could subtract the noise
    _load_shared(run, stage, received, message.array_records[protocol.FIXED])
    restarts: dict[str, int] = json.loads(str(settings["local"]))
    _seat(run, device, restarts, context)
    _recall_secrets(run, device, context)
    answers = HomeFleet().play(run, stage, number, np.array([device]))
    _keep_secrets(run, device, context)
    _keep(run, device, restarts, context)
    metrics = _metrics(answers, context)
    if not len(answers.sent.speaking):  # nothing is shared in this stage, or the shield could not run
        return RecordDict({protocol.METRICS: metrics})
    trained = received + answers.sent.updates[0].cpu()
    return RecordDict({protocol.SHARED: protocol.split(trained, segments_of(run, stage)), protocol.METRICS: metrics})


def _load_shared(run: Run, stage: Stage, received: torch.Tensor, fixed: ArrayRecord) -> None:
    """Set all players to the weights that the server sent."""
    start, where = 0, run.federation.torch_device
    for name, state in protocol.flat_states(fixed).items():
        if name not in run.shared or state.shape != run.shared[name].shape:
            raise InputError(f"the server sends weights of {name!r}, which do not fit this game's networks")
        run.shared[name] = state.to(where, run.federation.number_type)
    for name in protocol.moved(run, stage):
        size = run.layouts[name].size
        run.shared[name] = received[start : start + size].to(where)
        start += size


def _seat(run: Run, device: int, restarts: dict[str, int], context: Context) -> None:
    """Seat local players as this node has kept them, or at the start if they are new or were restarted."""
    stored = protocol.flat_states(context.state.array_records.get(_LOCAL, ArrayRecord()))
    restarted = context.state.metric_records.get(_RESTARTED, MetricRecord())
    for name, times in restarts.items():
        seat_locally(run, name)
        if name in stored and restarted.get(name) == times:
            run.local[name].put(np.array([device]), stored[name][None])


def _keep(run: Run, device: int, restarts: dict[str, int], context: Context) -> None:
    devices = np.array([device])
    states = {name: player.get(devices)[0] for name, player in run.local.items() if device in player.slot_of}
    context.state[_LOCAL] = protocol.flat_record(states)
    context.state[_RESTARTED] = MetricRecord({name: restarts[name] for name in states})


def _recall_secrets(run: Run, device: int, context: Context) -> None:
    """Restore, for shields whose randomness is the same in every round, what they drew in the first."""
    stored = context.state.config_records.get(_SECRETS, ConfigRecord())
    for index, shield in enumerate(members(run.shield)):
        if isinstance(shield, Unread) and str(index) in stored:
            shield.secrets_[device] = int(str(stored[str(index)]))


def _keep_secrets(run: Run, device: int, context: Context) -> None:
    drawn = {
        str(index): str(shield.secrets_[device])
        for index, shield in enumerate(members(run.shield))
        if isinstance(shield, Unread) and device in shield.secrets_
    }
    context.state[_SECRETS] = ConfigRecord(dict(drawn))


def _metrics(answers: Answers, context: Context) -> MetricRecord:
    metrics: dict[str, int | float | list[int] | list[float]] = {
        "num-examples": int(answers.records[0]),
        "steps": int(answers.steps[0]),
        "losses": [float(loss) for loss in answers.losses[0]],
    }
    if context.node_config.get(protocol.REVEAL) is True:
        metrics |= {f"damage-{name}": float(value) for name, value in answers.sent.damage.items()}
    return MetricRecord(metrics)
