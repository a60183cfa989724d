"""The plain engine: one device after another, with torch's own modules and optimisers; slow, but easy to check.

It is the reference against which the stacked engine is tested.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn

from fedveil.federation.counted_random import Dice
from fedveil.federation.replaced_layers import CountedDropout, Situation
from fedveil.federation.weights import Layout
from fedveil.federation.work import Engine, Outcome, Work, refuse_divergence
from fedveil.games.game import Move
from fedveil.games.optimisers import SGD, Optimiser
from fedveil.games.play import Play


class PlainEngine(Engine):
    """Sequential reference."""

    name = "plain"

    def play(self, work: Work, states: Mapping[str, Tensor], memories: Mapping[str, Tensor]) -> Outcome:
        """Play the round on one device after another."""
        layouts = {name: Layout.of(seat.template) for name, seat in work.seats.items()}
        movers = work.stage.players
        ends = {name: states[name].clone() for name in movers}
        new_memories = {name: memory.clone() for name, memory in memories.items()}
        like = next(iter(states.values()))
        seeds = work.dropout_seeds().to(like.device)
        plans = [work.batches(position) for position in range(len(work.devices))]
        most_steps = max((len(plan) for plan in plans), default=0)
        trace = np.zeros((most_steps, len(work.stage.moves), len(work.devices)))
        for position, plan in enumerate(plans):
            modules = {name: copy.deepcopy(seat.template) for name, seat in work.seats.items()}
            for name, module in modules.items():
                module.to(states[name].device, states[name].dtype)
                layouts[name].load(module, states[name][position])
            scale = 1.0 if work.rate_scales is None else float(work.rate_scales[position])
            optimisers = {name: _optimiser(modules[name], work.seats[name].player.optimiser, scale) for name in movers}
            for name, memory in new_memories.items():
                _remember(optimisers[name], layouts[name], memory[position])
            settings = {
                name: torch.tensor(values[position : position + 1]).to(like) for name, values in work.settings.items()
            }
            dice = Dice(lambda i=position: work.loss_seeds()[i : i + 1].to(like.device))  # type: ignore[misc]
            for step, rows in enumerate(plan):
                batch = torch.from_numpy(rows[rows >= 0]).to(like.device)
                data = {name: column[batch] for name, column in work.data.items()}
                situation = Situation(True, None, seeds[position : position + 1], step)
                dice.turn(step, batch.shape)
                for index, move in enumerate(work.stage.moves):
                    for _ in range(move.repeat):
                        trace[step, index, position] = _move(move, modules, optimisers, data, settings, situation, dice)
            for name in movers:
                ends[name][position] = layouts[name].flatten(modules[name], ends[name].dtype)
            for name, memory in new_memories.items():
                memory[position] = _memory(optimisers[name], layouts[name], memory[position])
        refuse_divergence(work, trace, ends)
        steps = np.array([len(plan) for plan in plans], dtype=np.int64)
        return Outcome(ends, new_memories, trace.sum(axis=0).T / np.maximum(steps, 1)[:, None], steps)


def _move(
    move: Move,
    modules: Mapping[str, nn.Module],
    optimisers: Mapping[str, torch.optim.Optimizer],
    data: Mapping[str, Tensor],
    settings: Mapping[str, Tensor],
    situation: Situation,
    dice: Dice,
) -> float:
    for name, module in modules.items():
        module.train(move.trains(name))
        module.requires_grad_(name in move.players)
        for part in module.modules():
            if isinstance(part, CountedDropout):
                part.now = situation
    loss = move.loss(Play(data, None, settings, lambda player, inputs: modules[player](inputs), dice)).mean()
    for name in move.players:
        optimisers[name].zero_grad(set_to_none=False)
    loss.backward()  # type: ignore[no-untyped-call]
    for name in move.players:
        for parameter in modules[name].parameters():
            if parameter.grad is None:  # a weight that the loss never used has a zero gradient
                parameter.grad = torch.zeros_like(parameter)
        optimisers[name].step()
    return float(loss.detach())


def _optimiser(module: nn.Module, settings: Optimiser, scale: float) -> torch.optim.Optimizer:
    if isinstance(settings, SGD):
        return torch.optim.SGD(
            module.parameters(),
            settings.learning_rate * scale,
            momentum=settings.momentum,
            weight_decay=settings.weight_decay,
        )
    return torch.optim.Adam(
        module.parameters(),
        settings.learning_rate * scale,
        betas=(settings.beta1, settings.beta2),
        eps=settings.epsilon,
        weight_decay=settings.weight_decay,
    )


_PARTS = {torch.optim.SGD: ("momentum_buffer",), torch.optim.Adam: ("exp_avg", "exp_avg_sq")}


def _remember(optimiser: torch.optim.Optimizer, layout: Layout, memory: Tensor) -> None:
    """Give torch's optimiser the memory of earlier rounds: its moments one after another, then the step count."""
    if not len(memory) or (isinstance(optimiser, torch.optim.Adam) and not float(memory[-1])):
        return
    for parameter, entry in zip(optimiser.param_groups[0]["params"], layout.parameters, strict=True):
        for index, part in enumerate(_PARTS[type(optimiser)]):
            start = index * layout.trained
            optimiser.state[parameter][part] = (
                memory[start + entry.start : start + entry.stop].view(entry.shape).clone()
            )
        if isinstance(optimiser, torch.optim.Adam):
            optimiser.state[parameter]["step"] = memory[-1].to(torch.float32).clone()


def _memory(optimiser: torch.optim.Optimizer, layout: Layout, before: Tensor) -> Tensor:
    """Read the memory of torch's optimiser back into one vector."""
    if not len(before) or not optimiser.state:
        return before
    memory = before.clone()
    for parameter, entry in zip(optimiser.param_groups[0]["params"], layout.parameters, strict=True):
        for index, part in enumerate(_PARTS[type(optimiser)]):
            start = index * layout.trained
            memory[start + entry.start : start + entry.stop] = optimiser.state[parameter][part].reshape(-1)
        count = optimiser.state[parameter].get("step", 0)
    memory[-1] = float(count)
    return memory
