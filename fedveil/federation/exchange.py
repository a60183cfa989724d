"""What happens between devices and server in a round: updates pass the shield, and the server combines them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from fedveil.core.arrays import IntArray
from fedveil.core.randomness import torch_generator
from fedveil.federation.by_record import begun_with, samples_behind
from fedveil.federation.work import Outcome, Work
from fedveil.shields.message import Context, Kind
from fedveil.shields.shield import Identity, ShieldError

if TYPE_CHECKING:
    from fedveil.federation.run import Run
    from fedveil.games.game import Stage
    from fedveil.updates.segments import Segment


@dataclass(frozen=True, eq=False)
class Sent:
    """The updates as they left: of the devices at these positions among the sampled ones; the others sent nothing."""

    updates: Tensor
    speaking: IntArray
    damage: dict[str, float]
    bytes: int


def send_updates(run: Run, work: Work, outcome: Outcome) -> Sent:
    """Shield every device's update of its shared players; a device whose shield cannot run sends nothing."""
    from fedveil.federation.layout import segments_of

    names = [name for name in run.seats if name in work.stage.shared and name in outcome.states]
    everyone = np.arange(len(work.devices))
    if not names:
        return Sent(torch.zeros(0, 0), everyone[:0], {}, 0)
    updates = torch.cat([outcome.states[name] - run.shared[name] for name in names], dim=1)
    if isinstance(run.shield, Identity) or Kind.UPDATE not in run.shield.acts_on:
        return Sent(updates, everyone, {}, updates.numel() * updates.element_size())
    segments = segments_of(run, work.stage)
    networks = begun_with(run, work) if run.shield.by_record else {}
    contexts = [_context(run, work, outcome, segments, networks, position) for position in range(len(work.devices))]
    answers = run.shield.apply_all(updates, contexts)
    speaking = [position for position, answer in enumerate(answers) if not isinstance(answer, ShieldError)]
    spoken = [answer for answer in answers if not isinstance(answer, ShieldError)]
    sent = [message.values for message, _ in spoken]
    damages = [damage for _, damage in spoken]
    facts = [asdict(damage) for damage in damages]
    mean = {key: float(np.mean([one[key] for one in facts])) for key in facts[0]} if facts else {}
    total = sum(damage.bytes for damage in damages)
    return Sent(torch.cat(sent) if sent else updates[:0], np.array(speaking, dtype=np.int64), mean, total)


def aggregate(run: Run, stage: Stage, sent: Sent, records: IntArray) -> None:
    """Let the server combine the updates, weighted by their senders' numbers of records, and move shared players."""
    weights = torch.from_numpy(records[sent.speaking]).to(sent.updates.device, torch.float32)
    combined = run.federation.aggregation(sent.updates, weights)
    place = 0
    for name in run.seats:
        if name in stage.shared and name in stage.players:
            size = run.layouts[name].size
            run.shared[name] = run.shared[name] + combined[place : place + size].to(run.shared[name].dtype)
            place += size


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
        samples=samples_behind(work, outcome, networks, position) if run.shield.by_record else None,
    )


class _Records(Mapping[str, Tensor]):
    """One device's records, gathered when they are read: a round's devices together hold more than one should copy."""

    def __init__(self, columns: Mapping[str, Tensor], rows: IntArray) -> None:
        self.columns, self.rows = columns, rows

    def __getitem__(self, name: str) -> Tensor:
        column = self.columns[name]
        return column[torch.from_numpy(self.rows).to(column.device)]

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)
