"""Playing a run: round by round and stage by stage, to the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

from fedveil.core.errors import InputError
from fedveil.core.randomness import child_seed, torch_generator
from fedveil.data.attribute_data import Split
from fedveil.federation.exchange import aggregate
from fedveil.federation.fleet import HomeFleet
from fedveil.federation.progress import RoundRecord
from fedveil.federation.recording import shadow_rows, watch
from fedveil.federation.records import readable, without_variety
from fedveil.federation.replaced_layers import replace_layers
from fedveil.federation.stacked.descent import memory_size
from fedveil.federation.weights import LocalPlayer, model_of
from fedveil.federation.work import ENGINES
from fedveil.games.game import Player, Stage

if TYPE_CHECKING:
    from fedveil.federation.run import Run


def play(
    run: Run,
    rounds: int | None = None,
    *,
    callbacks: Sequence[Callable[[RoundRecord], None]] = (),
    record: Sequence[int] = (),
    shadows: int = 0,
    checkpoint: str | Path | None = None,
) -> None:
    """Play a run to the end of its last stage; see `Run.play`."""
    engine = run.federation.engine
    if run.stages and engine not in ENGINES and isinstance(run.fleet, HomeFleet):
        raise InputError(
            f"engine {engine!r} plays on its own machines: use it in a study (fedveil run) or, for Flower, in an app "
            "(fedveil flower new)"
        )
    run.shadow_rows = shadow_rows(run, shadows) if shadows else run.shadow_rows
    progress = run.progress
    if run.last_shared is not None:  # played to the end before: continue from the last round, not from the best
        run.shared, run.last_shared = run.last_shared, None
    while progress.stage < len(run.stages):
        stage = run.stages[progress.stage]
        planned = stage.rounds if stage.rounds is not None else rounds
        if planned is None:
            raise InputError(f"stage {stage.name!r} states no number of rounds; give one: play(game, rounds=…)")
        while progress.round < planned and not _stalled(run, stage):
            play_round(run, stage, record)
            for callback in callbacks:
                callback(progress.history[-1])
            if checkpoint is not None:
                run.save(checkpoint)
        if progress.stage == len(run.stages) - 1:
            break
        _keep_best(run)
        run.best_shared = run.last_shared = None
        run.recorded, run.shadows, run.started_from = [], [], {}  # rounds are recorded per stage
        progress.stage, progress.round, progress.best = progress.stage + 1, 0, None
    _keep_best(run)
    if checkpoint is not None and not run.stages:
        run.save(checkpoint)


def play_round(run: Run, stage: Stage, record: Sequence[int] = ()) -> None:
    """Play the next round of a stage; keep what the server sees of it if its number is in `record`."""
    federation, number = run.federation, run.progress.round + 1
    devices = run.fleet.present(run, federation.sample(stage.name, number))
    losses: dict[str, float] = {}
    damage: dict[str, float] = {}
    silent, sent_bytes = 0, 0
    _restart(run, stage, number)
    if len(devices):
        for name in stage.players:
            if name not in stage.shared and name not in run.local:
                seat_locally(run, name)
        answers = run.fleet.play(run, stage, number, devices)
        sent = answers.sent
        silent = len(devices) - len(sent.speaking) if stage.shared.intersection(stage.players) else 0
        damage, sent_bytes = sent.damage, sent.bytes
        if len(sent.speaking):
            seen = watch(run, stage, number) if number in record else None
            aggregate(run, stage, sent, answers.records)
            if seen is not None:
                run.started_from[number] = seen.started_from
                run.shadows += seen.shadows
                run.recorded.append((number, answers.devices[sent.speaking], sent.updates))
        if len(answers.losses):
            means = np.average(answers.losses, axis=0, weights=np.maximum(answers.steps, 1))
            losses = {move.title: float(mean) for move, mean in zip(stage.moves, means, strict=True)}
    validation = None if stage.validation is None else _validation_loss(run, stage)
    run.progress.round = number
    hide_nothing = without_variety(run, devices)
    run.history.append(
        RoundRecord(stage.name, number, len(devices), silent, losses, validation, damage, sent_bytes, hide_nothing)
    )
    if validation is not None and validation < (np.inf if run.progress.best is None else run.progress.best):
        run.progress.best, run.progress.best_round = validation, number
        run.best_shared = {name: state.clone() for name, state in run.shared.items()}


def seat_locally(run: Run, name: str) -> None:
    """Let every device keep its own copy of a player from now on; all start with the current shared weights."""
    state = run.shared[name].cpu()
    memory = memory_size(run.seats[name].player.optimiser, run.layouts[name].trained)
    run.local[name] = LocalPlayer(torch.cat([state, state.new_zeros(memory)]), run.federation.local_limit)


def build_network(player: Player, seed: int, name: str) -> nn.Module:
    """Build a player's network with the same weights each time, even if the builder draws from torch's global state."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(child_seed(seed, "weights", name, "global"))
        return player.build(torch_generator(seed, "weights", name))


def _restart(run: Run, stage: Stage, number: int) -> None:
    """Give players that are due for a restart fresh weights; devices forget their copies of them."""
    for name, rounds in stage.restarts.items():
        if number > 1 and (number - 1) % rounds == 0:
            purpose = f"{name} in {stage.name} from {number}"
            fresh = build_network(run.seats[name].player, run.federation.seed, purpose)
            state = run.layouts[name].flatten(replace_layers(fresh, name), run.federation.number_type)
            run.shared[name] = state.to(run.federation.torch_device)
            run.local.pop(name, None)
            run.restarted[name] += 1


def _validation_loss(run: Run, stage: Stage) -> float:
    assert stage.validation is not None
    rows = run.federation.data.rows(Split.VALIDATION)
    if not len(rows):
        raise InputError(f"stage {stage.name!r} selects on validation records, but the data has none")
    everyone = np.arange(len(run.federation.partition))
    settings = {  # a setting that differs per device is judged by its mean
        name: run.tensors["x"].new_tensor([run.federation.setting(values, everyone).mean()])
        for name, values in run.federation.settings.items()
    }
    seed = child_seed(run.federation.seed, "validation", stage.name)  # every round is judged with the same draws
    records = readable(run, stage.reads, run.judged)
    return float(model_of(run).loss(stage.validation, records, rows, settings, seed).mean())


def _stalled(run: Run, stage: Stage) -> bool:
    waited = run.progress.round - run.progress.best_round
    return stage.patience is not None and run.progress.best is not None and waited >= stage.patience


def _keep_best(run: Run) -> None:
    if run.best_shared is not None:
        run.shared, run.last_shared = run.best_shared, run.shared
