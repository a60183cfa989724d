"""What each device's update was computed from, record by record: for shields that ask for it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from fedveil.federation.work import Outcome, Work
from fedveil.games.game import Move
from fedveil.games.optimisers import SGD
from fedveil.games.play import Play
from fedveil.shields.message import Samples
from fedveil.shields.shield import ShieldError

if TYPE_CHECKING:
    from fedveil.federation.run import Run


def begun_with(run: Run, work: Work) -> dict[str, nn.Module]:
    """Return the shared players' networks with the weights that this round began with, in evaluation mode."""
    found: dict[str, nn.Module] = {}
    for name, seat in work.seats.items():
        if name in work.stage.shared and name in work.stage.players:
            module = copy.deepcopy(seat.template).to(run.shared[name].device, run.shared[name].dtype)
            run.layouts[name].load(module, run.shared[name])
            found[name] = module.eval()
    return found


def samples_behind(work: Work, outcome: Outcome, networks: dict[str, nn.Module], position: int) -> Samples | None:
    """Return a device's samples where its update is one shared player's, learned by one loss of x and y; else None.

    Whether that loss reads anything else than the network's outputs and y is seen when it is called, and refused.
    """
    moves = work.stage.moves
    if len(networks) != 1 or len(moves) != 1 or not {"x", "y"} <= set(work.data):
        return None
    (player,) = networks
    if moves[0].players != (player,):
        return None
    rows = torch.from_numpy(work.rows[position]).to(work.data["x"].device)
    return Samples(
        network=networks[player],
        loss=_loss(moves[0], player, work, position),
        x=work.data["x"][rows],
        y=work.data["y"][rows],
        player=player,
        step=_step(work, outcome, moves[0], player, position),
    )


def _step(work: Work, outcome: Outcome, move: Move, player: str, position: int) -> float | None:
    """Return minus the learning rate where the device made one step of plain descent."""
    optimiser = work.seats[player].player.optimiser
    plain = isinstance(optimiser, SGD) and not optimiser.momentum and not optimiser.weight_decay
    if not plain or int(outcome.steps[position]) != 1 or move.repeat != 1:
        return None
    scale = 1.0 if work.rate_scales is None else float(work.rate_scales[position])
    return -optimiser.learning_rate * scale


def _loss(move: Move, player: str, work: Work, position: int) -> Callable[[Tensor, Tensor], Tensor]:
    """Return the move's loss as a function of the network's outputs on x, and y."""

    def of_outputs(outputs: Tensor, y: Tensor) -> Tensor:
        settings = {name: torch.tensor(own[position : position + 1]).to(outputs) for name, own in work.settings.items()}
        stand_in = outputs.new_empty(0)  # for x: the loss may send it through the network, and nothing else

        def networks(called: str, inputs: Tensor) -> Tensor:
            if called != player or inputs is not stand_in:
                raise ShieldError("the loss reads more than one network's outputs on x; nothing is sent")
            return outputs

        return move.loss(Play({"x": stand_in, "y": y}, None, settings, networks))

    return of_outputs
