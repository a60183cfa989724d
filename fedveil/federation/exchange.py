"""What happens between devices and server in a round: updates pass the shield, and the server combines them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from fedveil.core.arrays import IntArray
from fedveil.core.randomness import torch_generator
from fedveil.federation.work import Outcome, Work
from fedveil.games.game import Move, Stage
from fedveil.games.optimisers import SGD
from fedveil.games.play import Play
from fedveil.shields.message import Context, Kind, Samples
from fedveil.shields.shield import Identity, ShieldError
from fedveil.updates.segments import Segment

if TYPE_CHECKING:
    from fedveil.federation.run import Run


@dataclass(frozen=True, eq=False)
class Sent:
    """The updates as they left.

    Attributes:
        updates: one row per device that sent something.
        speaking: the positions of those devices among the sampled ones; the others sent nothing.
        damage: what the shield did to the updates, averaged over these devices.
        bytes: how much they sent in total.
    """

    updates: Tensor
    speaking: IntArray
    damage: dict[str, float]
    bytes: int


def sent_players(run: Run, stage: Stage) -> list[str]:
    """Return the players whose updates a stage sends, in the order of an update."""
    return [name for name in run.seats if stage.sends(name)]


def segments_of(run: Run, stage: Stage | None = None) -> tuple[Segment, ...]:
    """Return the tensors of an update in the order in which a device sends them, in a stage or in the current one."""
    if not run.stages:
        return ()
    if stage is None:
        stage = run.stages[min(run.progress.stage, len(run.stages) - 1)]
    segments: list[Segment] = []
    start = 0
    for player in sent_players(run, stage):
        layout = run.layouts[player]
        for entry in layout.parameters + layout.buffers:
            statistic = entry.start >= layout.trained
            segments.append(Segment(player, entry.name, entry.shape, start + entry.start, statistic))
        start += layout.size
    return tuple(segments)


def send_updates(run: Run, work: Work, outcome: Outcome) -> Sent:
    """Shield every device's update of its shared players; a device whose shield cannot run sends nothing."""
    names = sent_players(run, work.stage)
    all_positions = np.arange(len(work.devices))
    if not names:
        return Sent(torch.zeros(0, 0), all_positions[:0], {}, 0)
    updates = torch.cat([outcome.states[name] - run.shared[name] for name in names], dim=1)
    if isinstance(run.shield, Identity) or Kind.UPDATE not in run.shield.acts_on:
        return Sent(updates, all_positions, {}, updates.numel() * updates.element_size())
    segments = segments_of(run, work.stage)
    networks = _starting_networks(run, work) if run.shield.by_record else {}
    contexts = [_context(run, work, outcome, segments, networks, position) for position in range(len(work.devices))]
    answers = run.shield.apply_all(updates, contexts)
    speaking = [position for position, answer in enumerate(answers) if not isinstance(answer, ShieldError)]
    sent = [answer for answer in answers if not isinstance(answer, ShieldError)]
    messages = [message.values for message, _ in sent]
    damages = [asdict(damage) for _, damage in sent]
    mean = {key: float(np.mean([damage[key] for damage in damages])) for key in damages[0]} if damages else {}
    total = sum(damage.bytes for _, damage in sent)
    return Sent(torch.cat(messages) if messages else updates[:0], np.array(speaking, dtype=np.int64), mean, total)


def aggregate(run: Run, stage: Stage, sent: Sent, records: IntArray) -> None:
    """Let the server combine the updates, weighted by numbers of records, and move the shared players."""
    weights = torch.from_numpy(records[sent.speaking]).to(sent.updates.device, torch.float32)
    combined = run.federation.aggregation(sent.updates, weights)
    start = 0
    for name in sent_players(run, stage):
        size = run.layouts[name].size
        run.shared[name] = run.shared[name] + combined[start : start + size].to(run.shared[name].dtype)
        start += size


def _context(
    run: Run,
    work: Work,
    outcome: Outcome,
    segments: tuple[Segment, ...],
    networks: dict[str, nn.Module],
    position: int,
) -> Context:
    device = int(work.devices[position])
    return Context(
        device=device,
        round=work.round,
        generator=torch_generator(work.seed, "shield", work.stage.name, work.round, device),
        data=_Records(run.tensors, work.rows[position]),
        model={**run.shared, **{name: states[position] for name, states in outcome.states.items()}},
        policy=run.federation.policy(device),
        segments=segments,
        networks=networks,
        samples=_samples(work, outcome, networks, position) if run.shield.by_record else None,
    )


class _Records(Mapping[str, Tensor]):
    """One device's records, gathered only when they are read: copying those of all devices would cost too much."""

    def __init__(self, columns: Mapping[str, Tensor], rows: IntArray) -> None:
        self.columns, self.rows = columns, rows

    def __getitem__(self, name: str) -> Tensor:
        column = self.columns[name]
        return column[torch.from_numpy(self.rows).to(column.device)]

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)


# What each device's update was computed from, record by record, for shields that need it (`Shield.by_record`).


def _starting_networks(run: Run, work: Work) -> dict[str, nn.Module]:
    """Return the networks of the players that are sent, with this round's first weights, in evaluation mode."""
    networks: dict[str, nn.Module] = {}
    for name in sent_players(run, work.stage):
        module = copy.deepcopy(work.seats[name].template).to(run.shared[name].device, run.shared[name].dtype)
        run.layouts[name].load(module, run.shared[name])
        networks[name] = module.eval()
    return networks


def _samples(work: Work, outcome: Outcome, networks: dict[str, nn.Module], position: int) -> Samples | None:
    """Return a device's samples if its update is that of one shared player with one loss of x and y; else None.

    A loss that reads anything but the network's outputs and y is refused when it is called.
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
        loss=_loss_of_outputs(moves[0], player, work, position),
        x=work.data["x"][rows],
        y=work.data["y"][rows],
        player=player,
        step=_single_step(work, outcome, moves[0], player, position),
    )


def _single_step(work: Work, outcome: Outcome, move: Move, player: str, position: int) -> float | None:
    """Return minus the learning rate if the device made exactly one step of plain descent."""
    optimiser = work.seats[player].player.optimiser
    plain = isinstance(optimiser, SGD) and not optimiser.momentum and not optimiser.weight_decay
    if not plain or int(outcome.steps[position]) != 1 or move.repeat != 1:
        return None
    scale = 1.0 if work.rate_scales is None else float(work.rate_scales[position])
    return -optimiser.learning_rate * scale


def _loss_of_outputs(move: Move, player: str, work: Work, position: int) -> Callable[[Tensor, Tensor], Tensor]:
    """Return the move's loss as a function of the network's outputs on x, and y."""

    def loss(outputs: Tensor, y: Tensor) -> Tensor:
        settings = {
            name: torch.tensor(values[position : position + 1]).to(outputs) for name, values in work.settings.items()
        }
        stand_in = outputs.new_empty(0)  # for x: the loss may send it through the network, but do nothing else with it

        def networks(called: str, inputs: Tensor) -> Tensor:
            if called != player or inputs is not stand_in:
                raise ShieldError("the loss reads more than one network's outputs on x; nothing is sent")
            return outputs

        return move.loss(Play({"x": stand_in, "y": y}, None, settings, networks))

    return loss
