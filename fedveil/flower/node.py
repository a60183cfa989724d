"""A node's share of a game on Flower: one device, whose local players are kept in the node's state."""

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
from fedveil.federation.fleet import Answers, HomeFleet
from fedveil.flower import wire
from fedveil.flower.secret_noise import keep_updates_secret
from fedveil.flower.setup import Setup
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

    The study's shield works on every update before it leaves; one that cannot run sends nothing. A site's own policy is
    kept by `shield_mod`, given among the mods.

    Args:
        study: the study's file, the server's own.
        data: returns this node's own records; None: its part of the study's data, by the node config's `partition-id`.
        mods: Flower mods, the outermost first.
    """
    app = ClientApp(mods=mods or [])

    @app.query()
    def who(message: Message, context: Context) -> Message:
        told = MetricRecord()
        told[wire.PARTITION] = _device(context)
        told[wire.PARTITIONS] = int(context.node_config.get(wire.PARTITIONS, 0))
        return Message(RecordDict({wire.METRICS: told}), reply_to=message)

    @app.query("reveal")
    def reveal(message: Message, context: Context) -> Message:
        if context.node_config.get(wire.REVEAL) is not True:
            raise InputError(f"this node keeps its local players: its node config does not say {wire.REVEAL} = true")
        kept = context.state.array_records.get(_LOCAL, ArrayRecord())
        return Message(RecordDict({wire.LOCAL: ArrayRecord(dict(kept))}), reply_to=message)

    @app.train()
    def train(message: Message, context: Context) -> Message:
        setup = Setup.read(study, context.run_config)
        device = _device(context)
        run = setup.run() if data is None else setup.run(data(context), holder=device)
        return Message(_trained(run, device, message.content, context), reply_to=message)

    return app


def _device(context: Context) -> int:
    place = context.node_config.get(wire.PARTITION)
    if not isinstance(place, int) or isinstance(place, bool) or place < 0:
        raise InputError(f"node config: {wire.PARTITION} must be the device's number, from 0 up; got {place!r}")
    return place


def _trained(run: Run, device: int, asked: RecordDict, context: Context) -> RecordDict:
    """Play one round on this node's device."""
    if device >= len(run.federation.partition):
        raise InputError(f"node config: {wire.PARTITION} is {device}, and there are {len(run.federation.partition)}")
    told = asked.config_records[wire.ORDER]
    place, number = int(str(told["stage"])), int(str(told["round"]))
    if not 0 <= place < len(run.stages) or number < 1:
        raise InputError(f"the server asks for round {number} of stage {place}, and this game has {len(run.stages)}")
    stage = run.stages[place]
    run.progress.stage, run.progress.round = place, number - 1
    came = wire.joined(asked.array_records[wire.SHARED], run, stage)
    if context.node_config.get(wire.REVEAL) is not True:
        keep_updates_secret(run.shield)  # the server knows the study's seed, and would take the noise off
    _load_shared(run, stage, came, asked.array_records[wire.FIXED])
    _seat(run, device, json.loads(str(told["local"])), context)
    _recall_secrets(run, device, context)
    answers = HomeFleet().play(run, stage, number, np.array([device]))
    _keep_secrets(run, device, context)
    _keep(run, device, json.loads(str(told["local"])), context)
    metrics = _metrics(answers, context)
    if not len(answers.sent.speaking):  # nothing is shared in this stage, or the shield could not run
        return RecordDict({wire.METRICS: metrics})
    left = came + answers.sent.updates[0].cpu()
    return RecordDict({wire.SHARED: wire.split(left, wire.segments(run, stage)), wire.METRICS: metrics})


def _load_shared(run: Run, stage: Stage, came: torch.Tensor, fixed: ArrayRecord) -> None:
    """Set all players to what the server told."""
    place, where = 0, run.federation.place
    for name, state in wire.flat_states(fixed).items():
        if name not in run.shared or state.shape != run.shared[name].shape:
            raise InputError(f"the server sends weights of {name!r}, which do not fit this game's networks")
        run.shared[name] = state.to(where, run.federation.number_type)
    for name in wire.moved(run, stage):
        size = run.layouts[name].size
        run.shared[name] = came[place : place + size].to(where)
        place += size


def _seat(run: Run, device: int, local: dict[str, int], context: Context) -> None:
    """Seat local players: as this node has kept them, or, where it never had them or must forget them, at the start."""
    kept = wire.flat_states(context.state.array_records.get(_LOCAL, ArrayRecord()))
    restarted = context.state.metric_records.get(_RESTARTED, MetricRecord())
    for name, times in local.items():
        run.seat_locally(name)
        if name in kept and restarted.get(name) == times:
            run.local[name].put(np.array([device]), kept[name][None])


def _keep(run: Run, device: int, local: dict[str, int], context: Context) -> None:
    own = np.array([device])
    states = {name: player.get(own)[0] for name, player in run.local.items() if device in player.slot_of}
    context.state[_LOCAL] = wire.flat_record(states)
    context.state[_RESTARTED] = MetricRecord({name: local[name] for name in states})


def _recall_secrets(run: Run, device: int, context: Context) -> None:
    """Give shields whose randomness is the same in every round back what they drew in the first."""
    kept = context.state.config_records.get(_SECRETS, ConfigRecord())
    for place, shield in enumerate(members(run.shield)):
        if isinstance(shield, Unread) and str(place) in kept:
            shield.secrets_[device] = int(str(kept[str(place)]))


def _keep_secrets(run: Run, device: int, context: Context) -> None:
    drawn = {
        str(place): str(shield.secrets_[device])
        for place, shield in enumerate(members(run.shield))
        if isinstance(shield, Unread) and device in shield.secrets_
    }
    context.state[_SECRETS] = ConfigRecord(dict(drawn))


def _metrics(answers: Answers, context: Context) -> MetricRecord:
    told: dict[str, int | float | list[int] | list[float]] = {
        "num-examples": int(answers.records[0]),
        "steps": int(answers.steps[0]),
        "losses": [float(loss) for loss in answers.losses[0]],
    }
    if context.node_config.get(wire.REVEAL) is True:
        told |= {f"damage-{name}": float(value) for name, value in answers.sent.damage.items()}
    return MetricRecord(told)
