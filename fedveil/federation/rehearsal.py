"""A rehearsal before the first round: every loss once, on a few records, so that faults are reported in words.

Networks are in training mode, as in training. A draw from torch's global state is also a fault: the same seed would
give different results, and the engines would differ. So is a setting that no loss reads: it must be misspelt.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from fedveil.core.arrays import IntArray
from fedveil.core.errors import InputError, nearest
from fedveil.data.attribute_data import Split
from fedveil.federation.counted_random import fixed_dice
from fedveil.federation.records import readable
from fedveil.federation.replaced_layers import CountedDropout, Situation
from fedveil.federation.weights import model_of
from fedveil.games.play import Play

if TYPE_CHECKING:
    from fedveil.federation.run import Run
    from fedveil.games.game import Loss, Stage


def rehearse(run: Run) -> None:
    """Run every loss on a few records; name the player whose shapes do not fit."""
    modules = _in_training(run)
    settings_read: set[str] = set()
    for stage in run.stages:
        rows = _sample_rows(run, stage, Split.TRAIN)
        for move in stage.moves:
            for name, module in modules.items():
                module.requires_grad_(name in move.players)
            where = f"stage {stage.name!r}, move {move.title!r}"
            loss, seen = _try(run, stage, move.loss, rows, modules, where, settings_read)
            if loss.shape not in (torch.Size([len(rows)]), torch.Size([])):
                raise InputError(
                    f"{where}: the loss has shape {tuple(loss.shape)} for {len(rows)} records; "
                    f"it must return one value per record or one in total{seen}"
                )
        if stage.validation is not None:
            held_out = _sample_rows(run, stage, Split.VALIDATION)
            if not len(held_out):
                raise InputError(f"stage {stage.name!r} selects on validation records, but the data has none")
            where = f"stage {stage.name!r}, validation"
            loss, seen = _try(run, stage, stage.validation, held_out, model_of(run).modules, where, settings_read)
            if loss.shape != torch.Size([len(held_out)]):
                raise InputError(
                    f"{where}: the loss has shape {tuple(loss.shape)} for {len(held_out)} records; "
                    f"it must return one value per record{seen}"
                )
    for name in run.federation.settings:
        if name not in settings_read:
            hint = nearest(name, sorted(settings_read))
            raise InputError(f"setting {name!r} is read by no loss of {run.game.name}: {hint}")


class _Watched(Mapping[str, Tensor]):
    """Settings that remember which of them were read."""

    def __init__(self, settings: Mapping[str, Tensor], names_read: set[str]) -> None:
        self.settings, self.names_read = settings, names_read

    def __getitem__(self, name: str) -> Tensor:
        self.names_read.add(name)
        return self.settings[name]

    def __contains__(self, name: object) -> bool:
        self.names_read.add(str(name))
        return name in self.settings

    def __iter__(self) -> Iterator[str]:
        self.names_read.update(self.settings)
        return iter(self.settings)

    def __len__(self) -> int:
        return len(self.settings)


def _try(
    run: Run,
    stage: Stage,
    function: Loss,
    rows: IntArray,
    modules: Mapping[str, nn.Module],
    where: str,
    settings_read: set[str],
) -> tuple[Tensor, str]:
    """Return the loss of some records, and a description of the shapes that went through each player."""

    def send(player: str, inputs: Tensor) -> Tensor:
        if player not in modules:
            raise InputError(f"no player {player!r} among {', '.join(modules)}")
        try:
            return torch.as_tensor(modules[player](inputs))
        except RuntimeError as fault:
            raise InputError(f"player {player!r} cannot take inputs of shape {tuple(inputs.shape)}: {fault}") from fault

    selected = torch.from_numpy(rows).to(run.tensors["x"].device)
    device = np.zeros(1, dtype=np.int64)
    settings = {
        name: torch.tensor(run.federation.setting(values, device)).to(run.tensors["x"])
        for name, values in run.federation.settings.items()
    }
    data = {name: column[selected] for name, column in readable(run, stage.reads).items()}
    dice = fixed_dice(0, selected.device)
    dice.turn(0, selected.shape)
    play = Play(data, None, _Watched(settings, settings_read), send, dice)
    global_state = torch.get_rng_state()
    try:
        loss = function(play)
    except InputError as fault:
        raise type(fault)(f"{where}: {fault}{_seen(play)}") from fault
    except (RuntimeError, ValueError, IndexError, KeyError) as fault:
        raise InputError(f"{where}: the loss does not fit its networks: {fault}{_seen(play)}") from fault
    if not torch.equal(global_state, torch.get_rng_state()):
        torch.set_rng_state(global_state)
        raise InputError(
            f"{where}: a loss or a network drew from torch's global random state, which makes runs irreproducible; "
            f"use nn.Dropout for dropout (none in attention), play.noise and play.permutation in losses{_seen(play)}"
        )
    return loss, _seen(play)


def _in_training(run: Run) -> dict[str, nn.Module]:
    modules = model_of(run).modules
    for module in modules.values():
        for part in module.train().modules():
            if isinstance(part, CountedDropout):
                part.now = Situation(True, None, torch.zeros(1, dtype=torch.int64, device=run.tensors["x"].device))
    return modules


def _sample_rows(run: Run, stage: Stage, split: Split) -> IntArray:
    """Return a few records of a split, including one with the highest code of every label that is read."""
    rows = run.federation.data.rows(split)
    if not len(rows):
        return rows
    labels = [column for name, column in readable(run, stage.reads).items() if name != "x"]
    highest = [rows[int(column.cpu().numpy()[rows].argmax())] for column in labels]
    return np.unique(np.concatenate([rows[:4], np.array(highest, dtype=np.int64)]))


def _seen(play: Play) -> str:
    shapes = "; ".join(f"player {name!r} turned {inputs} into {output}" for name, inputs, output in play.calls)
    return f" ({shapes})" if shapes else ""
