"""A rehearsal before the first round: every loss once, on a few records, so that faults are told in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from fedveil.data.attribute_data import Split
from fedveil.errors import InputError
from fedveil.games.play import Play

if TYPE_CHECKING:
    from fedveil.federation.run import Run


def rehearse(run: Run) -> None:
    """Run every move's loss on a few training records; say which player's shapes do not fit."""
    rows = run.federation.data.rows(Split.TRAIN)[:4]
    modules = run.model().modules
    settings = {
        name: torch.tensor(run.federation.setting(values, rows[:1] * 0)).to(run.tensors["x"])
        for name, values in run.federation.settings.items()
    }
    for stage in run.stages:
        few = torch.from_numpy(rows).to(run.tensors["x"].device)
        data = {name: column[few] for name, column in run.readable(stage.reads).items()}
        for move in stage.moves:
            play = Play(data, None, settings, lambda player, x: modules[player](x))
            try:
                with torch.no_grad():
                    loss = move.loss(play)
            except InputError as fault:
                raise type(fault)(f"stage {stage.name!r}, move {move.title!r}: {fault}{_seen(play)}") from fault
            except (RuntimeError, ValueError, IndexError, KeyError) as fault:
                raise InputError(
                    f"stage {stage.name!r}, move {move.title!r}: the loss does not fit its networks: "
                    f"{fault}{_seen(play)}"
                ) from fault
            if loss.shape not in (torch.Size([len(rows)]), torch.Size([])):
                raise InputError(
                    f"stage {stage.name!r}, move {move.title!r}: the loss has shape {tuple(loss.shape)} for "
                    f"{len(rows)} records; it must give one value per record or one in all{_seen(play)}"
                )


def _seen(play: Play) -> str:
    shapes = "; ".join(f"player {name!r} made {output} of {inputs}" for name, inputs, output in play.calls)
    return f" ({shapes})" if shapes else ""
