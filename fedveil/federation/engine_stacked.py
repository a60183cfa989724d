"""The stacked engine: all sampled devices at once, along a leading axis.

The time of small models goes to the interpreter, not to arithmetic: one pass of Python for a hundred devices costs
little more than for one. Devices are sorted by their number of steps, so that those still training are
always a leading part of the stack; partial batches are padded, and padding has weight 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from fedveil.core.errors import InputError
from fedveil.federation.counted_random import Dice
from fedveil.federation.replaced_layers import Situation
from fedveil.federation.stacked.descent import Memory, descend, memory_size
from fedveil.federation.stacked.mlp import Step
from fedveil.federation.stacked.network import StackedNetwork
from fedveil.federation.weights import Seat
from fedveil.federation.work import Engine, Outcome, Work, refuse_divergence
from fedveil.games.game import Move
from fedveil.games.optimisers import SGD
from fedveil.games.play import Play


@dataclass
class _Table:
    """One player on the leading devices of the stack: its tensors, each contiguous, (devices, *shape).

    Batched products write into contiguous tensors two to three times faster than into views of one flat stack.
    """

    network: StackedNetwork
    parameters: list[Tensor]
    buffers: list[Tensor]
    memory: Memory
    moving: list[Tensor]

    @classmethod
    def unpack(cls, network: StackedNetwork, stack: Tensor, memory: Tensor) -> _Table:
        layout = network.layout
        parameters = [
            view.clone(memory_format=torch.contiguous_format) for view in layout.views(stack, layout.parameters)
        ]
        buffers = [view.clone(memory_format=torch.contiguous_format) for view in layout.views(stack, layout.buffers)]
        return cls(network, parameters, buffers, Memory.unpack(memory, layout), [])

    def leading(self, devices: int) -> _Table:
        parameters = [tensor[:devices] for tensor in self.parameters]
        moving = [tensor.detach().requires_grad_() for tensor in parameters]
        buffers = [tensor[:devices] for tensor in self.buffers]
        return _Table(self.network, parameters, buffers, self.memory.leading(devices), moving)

    def pack(self) -> Tensor:
        parts = [*self.parameters, *self.buffers]
        return torch.cat([part.reshape(len(part), -1) for part in parts], dim=1)


class StackedEngine(Engine):
    """All sampled devices in one pass of the interpreter."""

    name = "stacked"

    def __init__(self) -> None:
        self._networks: dict[str, StackedNetwork] = {}

    def paths(self, seats: Mapping[str, Seat]) -> dict[str, str]:
        """Return which path each player's network takes."""
        return {name: self._network(name, seat).path for name, seat in seats.items()}

    def _network(self, name: str, seat: Seat) -> StackedNetwork:
        if name not in self._networks or self._networks[name].template is not seat.template:
            self._networks[name] = StackedNetwork(seat.template, second_order=seat.player.second_order)
        return self._networks[name]

    def play(self, work: Work, states: Mapping[str, Tensor], memories: Mapping[str, Tensor]) -> Outcome:
        """Play the round on all devices at once."""
        plans = [work.batches(position) for position in range(len(work.devices))]
        steps = np.array([len(plan) for plan in plans], dtype=np.int64)
        order = np.argsort(-steps, kind="stable")
        original_order = np.argsort(order, kind="stable")
        like = next(iter(states.values()))
        device, dtype = like.device, like.dtype
        all_tables = {
            name: _Table.unpack(
                self._network(name, seat),
                states[name][order],
                memories[name][order] if name in memories else _blank_memory(seat, states[name]),
            )
            for name, seat in work.seats.items()
        }
        batches = _Batches([plans[i] for i in order], device)
        seeds = work.dropout_seeds()[order].to(device)
        dice = Dice(lambda: work.loss_seeds()[order].to(device))
        scales = None if work.rate_scales is None else torch.tensor(work.rate_scales[order]).to(device, dtype)
        settings = {
            name: torch.tensor(values[order]).to(device, dtype).unsqueeze(1) for name, values in work.settings.items()
        }
        losses: list[list[Tensor]] = [[] for _ in work.stage.moves]
        active = -1
        for step in range(len(batches)):
            rows, weights = batches.at(step, dtype)
            if len(rows) != active:
                active = len(rows)
                tables = {name: table.leading(active) for name, table in all_tables.items()}
                active_settings = {name: values[:active] for name, values in settings.items()}
                scale = None if scales is None else scales[:active]
            flat = rows.reshape(-1)
            data = {
                n: column.index_select(0, flat).view(*rows.shape, *column.shape[1:]) for n, column in work.data.items()
            }
            situation = Situation(True, weights, seeds[:active], step)
            dice.turn(step, rows.shape)
            for index, move in enumerate(work.stage.moves):
                for _ in range(move.repeat):
                    play = Play(data, weights, active_settings, _no_networks, dice)
                    loss = self._move(move, work, tables, play, situation, scale, rows.shape)
                losses[index].append(loss)
        trace = torch.stack([_traced(of_move, len(order)) for of_move in losses], dim=1)
        ends = {name: all_tables[name].pack()[original_order] for name in work.stage.players}
        in_order = trace[:, :, original_order].numpy()
        refuse_divergence(work, in_order, ends)
        return Outcome(
            ends,
            {name: all_tables[name].memory.pack()[original_order] for name in memories},
            in_order.sum(axis=0).T / np.maximum(steps, 1)[:, None],
            steps,
        )

    def _move(
        self,
        move: Move,
        work: Work,
        tables: Mapping[str, _Table],
        play: Play,
        now: Situation,
        scale: Tensor | None,
        records: torch.Size,
    ) -> Tensor:
        steps: dict[str, Step] = {}
        for name in move.players:
            settings = work.seats[name].player.optimiser
            plain = isinstance(settings, SGD) and not settings.momentum and not settings.weight_decay and scale is None
            steps[name] = Step(settings.learning_rate if plain else None)

        def send(player: str, inputs: Tensor) -> Tensor:
            table = tables[player]
            step = steps.get(player)
            weights = table.parameters if step is None else table.moving
            situation = now if move.trains(player) else replace(now, training=False)
            return table.network(weights, table.buffers, inputs, situation, step or Step(None))

        play.networks = send
        loss = move.loss(play)
        shares = _shares(loss, now.weights, records, move)
        for step in steps.values():
            step.due = True
        leaves = [leaf for name in move.players for leaf in tables[name].moving]
        # Not as grad_outputs: torch would load sympy to compare their shapes, which takes half a second once.
        weighted = loss * shares
        gradients = iter(torch.autograd.grad(weighted.sum(), leaves, allow_unused=True))
        if all(step.fused for step in steps.values()):
            return weighted.detach()
        with torch.no_grad():
            for name in move.players:
                table = tables[name]
                of_player = [next(gradients) for _ in table.moving]
                if not steps[name].fused:
                    filled = [
                        torch.zeros_like(leaf) if gradient is None else gradient
                        for leaf, gradient in zip(table.moving, of_player, strict=True)
                    ]
                    descend(work.seats[name].player.optimiser, table.parameters, filled, table.memory, scale)
        return weighted.detach()


class _Batches:
    """Every step's record numbers for the devices still training, (steps, devices, batch), padded by a real record."""

    def __init__(self, plans: list[np.ndarray], device: torch.device) -> None:
        steps = max((len(plan) for plan in plans), default=0)
        widest = max((plan.shape[1] for plan in plans), default=0)
        numbers = np.full((steps, len(plans), widest), -1, dtype=np.int64)
        for position, plan in enumerate(plans):
            numbers[: len(plan), position, : plan.shape[1]] = plan
        real = numbers >= 0
        self.active = [int(n) for n in real[:, :, 0].sum(axis=1)] if steps else []
        counts = real.sum(axis=2)
        self.width = [int(row.max()) for row in counts] if steps else []
        self.ragged = [bool((row[:k] < w).any()) for row, k, w in zip(counts, self.active, self.width, strict=True)]
        self.real = torch.from_numpy(real).to(device)
        self.numbers = torch.from_numpy(np.where(real, numbers, numbers[:, :, :1])).to(device)

    def __len__(self) -> int:
        return len(self.active)

    def at(self, step: int, dtype: torch.dtype) -> tuple[Tensor, Tensor | None]:
        """Return a step's record numbers and, if some batches are shorter, the rows' weights."""
        k, width = self.active[step], self.width[step]
        rows = self.numbers[step, :k, :width]
        return rows, self.real[step, :k, :width].to(dtype) if self.ragged[step] else None


def _shares(loss: Tensor, weights: Tensor | None, records: torch.Size, move: Move) -> Tensor:
    """Return the weight of each value of a loss in its device's mean; a loss per device has weight 1.

    The loss is multiplied by these weights, which saves autograd the nodes of a mean.
    """
    if loss.shape == records[:1]:
        return torch.ones_like(loss)
    if loss.shape != records:
        raise InputError(
            f"move {move.title!r}: the loss has shape {tuple(loss.shape)} for {tuple(records)} records; "
            "it must return one value per record or one per device"
        )
    if weights is None:
        return torch.full_like(loss, 1 / records[1])
    return weights / weights.sum(dim=1, keepdim=True)


def _traced(losses: list[Tensor], devices: int) -> Tensor:
    """Return a move's loss on every device at every step, (steps, devices), 0 after a device has finished.

    Losses are summed here in a few passes, one per run of steps of the same shape, rather than at every step.
    """
    trace = torch.zeros(len(losses), devices, dtype=torch.float64)
    start = 0
    while start < len(losses):
        stop = start + 1
        while stop < len(losses) and losses[stop].shape == losses[start].shape:
            stop += 1
        block = torch.stack(losses[start:stop])
        summed = block.flatten(2).sum(dim=2) if block.dim() > 2 else block
        trace[start:stop, : summed.shape[1]] = summed
        start = stop
    return trace


def _blank_memory(seat: Seat, like: Tensor) -> Tensor:
    trained = sum(parameter.numel() for parameter in seat.template.parameters())
    return like.new_zeros(len(like), memory_size(seat.player.optimiser, trained))


def _no_networks(player: str, inputs: Tensor) -> Tensor:
    raise AssertionError("the engine has not seated the players yet")
