"""What the server saw during training: updates by sender and round, and shadow devices through the same pipeline.

Shadow devices are the attacker's own: they hold validation records whose attributes it knows, start from the same
shared weights, train by the same game and send through the same shield, but their updates are not aggregated.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from fedveil.core.arrays import FloatArray, IntArray
from fedveil.core.errors import InputError
from fedveil.core.randomness import child_seed, numpy_generator
from fedveil.data.attribute import Attribute
from fedveil.data.attribute_data import Split
from fedveil.data.partition import IID, Partitioner
from fedveil.data.splits import joint_strata, random_split
from fedveil.federation.exchange import send_updates
from fedveil.federation.inputs import varying
from fedveil.games.game import Stage
from fedveil.view import EVERY_OBSERVER, Capability, Pool, View

if TYPE_CHECKING:
    from fedveil.federation.run import Run

Recorded = tuple[int, IntArray, Tensor]
"""A round, the devices that spoke in it, and what each of them sent."""

PARTS = ("updates", "parameters", "statistics")


def shadow_rows(run: Run, shadows: int) -> list[IntArray]:
    """Deal the validation records to so many shadow devices, in the way in which real devices got theirs.

    The federation's partitioner deals them, so that shadows are as uneven as those whom they stand for. Where it makes
    a device of every group or record, so many of these are drawn.
    """
    data, seed = run.federation.data, run.federation.seed
    rows = data.rows(Split.VALIDATION)
    if shadows < 0 or len(rows) < shadows:
        raise InputError(f"{shadows} shadow devices for {len(rows)} validation records; ask for fewer, and not below 0")
    dealer = run.federation.devices if isinstance(run.federation.devices, Partitioner) else IID(shadows)
    if getattr(dealer, "devices", None) is not None:
        dealer = replace(dealer, devices=shadows)  # type: ignore[type-var]
    own = data.take(rows)
    try:
        dealt = dealer.deal(
            replace(own, split=np.full(len(own), Split.TRAIN, dtype=np.int8)), child_seed(seed, "shadows")
        )
    except InputError as fault:
        raise InputError(f"{shadows} shadow devices cannot be dealt {len(rows)} validation records: {fault}") from None
    if len(dealt) < shadows:
        raise InputError(f"{shadows} shadow devices, but the validation records make {len(dealt)}; ask for fewer")
    kept = np.sort(numpy_generator(seed, "shadows").choice(len(dealt), shadows, replace=False))
    return [np.sort(rows[dealt.device(int(device))]) for device in kept]


@dataclass(frozen=True, eq=False)
class Seen:
    """What is kept of a recorded round beside the devices' updates."""

    started_from: Tensor
    shadows: list[Recorded]


def watch(run: Run, stage: Stage, number: int) -> Seen:
    """Look at a round before the server moves: the shared weights, in an update's order, and what shadows send.

    Shadow devices are numbered behind the real ones, and have the settings of the real device in their place.
    """
    weights = torch.cat([run.shared[name] for name in run.seats if name in stage.shared and name in stage.players])
    rows, registered = run.shadow_rows, len(run.federation.partition)
    if not rows:
        return Seen(weights, [])
    own = registered + np.arange(len(rows), dtype=np.int64)
    work = replace(run.work(stage, number, np.arange(len(rows)) % registered), devices=own, rows=rows)
    if run.federation.own_attribute is not None and "u:own" in work.data:
        work = replace(work, data={**work.data, "u:own": _own_codes(run, rows)})
    variety = {
        name: varying(work.data[f"u:{name.partition(':')[2]}"], rows)
        for name in work.data
        if name.startswith("varies:")
    }
    work = replace(work, data={**work.data, **variety})
    sent = send_updates(run, work, run.engine.play(work, *run.device_states(stage, own)))
    return Seen(weights, [(number, own[sent.speaking], sent.updates)] if len(sent.speaking) else [])


def _own_codes(run: Run, rows: list[IntArray]) -> Tensor:
    """Give shadow devices the protected attribute of the real device in their place."""
    codes = run.tensors["u:own"].clone()
    chosen = run.federation.own_attribute or ()
    for shadow, own in enumerate(rows):
        attribute = run.federation.data.attributes[chosen[shadow % len(chosen)]]
        codes[torch.from_numpy(own).to(codes.device)] = torch.from_numpy(attribute.codes[own]).to(codes.device)
    return codes


def update_view(run: Run, what: str = "updates", seed: int = 0) -> View:
    """Let an observer see the recorded rounds: from what a device sent to its majority value of each attribute.

    `what` is "updates", "parameters" (the weights after the device's work) or "statistics" (the batch norms'
    running statistics that left). The attacker learns from shadow devices where there were some, and otherwise
    from some of the real devices, which are then never its victims.
    """
    if not run.recorded:
        raise InputError("no updates were recorded: play with record=[rounds to keep]")
    grants = EVERY_OBSERVER | {Capability.SENDERS, Capability.ROUNDS}
    if not run.shadows:
        vectors, labels, rounds = _seen(run, run.recorded, what)
        view = View.of_vectors(vectors, labels, groups=_senders(run.recorded), rounds=rounds, seed=seed)
        return replace(view, grants=grants)
    shadow_vectors, labels, rounds = _seen(run, run.shadows, what)
    senders = _senders(run.shadows)
    strata = joint_strata(list(labels.values()))  # a value that few shadows have must be in both parts
    split = random_split(len(senders), seed=seed, validation=0.3, test=0.0, strata=strata, groups=senders)
    held_out = split == Split.VALIDATION
    known = Pool(shadow_vectors, labels, senders, rounds=rounds)
    vectors, labels, rounds = _seen(run, run.recorded, what)
    victims = Pool(vectors, labels, _senders(run.recorded), rounds=rounds)
    return View(known.take(~held_out), known.take(held_out), victims, grants=grants)


def _senders(recorded: list[Recorded]) -> IntArray:
    return np.concatenate([devices for _, devices, _ in recorded])


def _seen(run: Run, recorded: list[Recorded], what: str) -> tuple[FloatArray, dict[str, Attribute], IntArray]:
    if what not in PARTS:
        raise InputError(f"no view of {what!r}: choose {', '.join(PARTS)}")
    chosen = []
    for number, _, updates in recorded:
        values = updates + run.started_from[number] if what != "updates" else updates
        chosen.append(values[:, _statistics(run)] if what == "statistics" else values)
    vectors = torch.cat(chosen).cpu().numpy().astype(np.float64)
    if not vectors.shape[1]:
        raise InputError("no statistics left the devices: the shared players have no batch norm")
    attributes = run.federation.data.attributes
    senders = _senders(recorded)
    rounds = np.concatenate([np.full(len(devices), number) for number, devices, _ in recorded])
    return vectors, {name: _majority(run, attribute, senders) for name, attribute in attributes.items()}, rounds


def _statistics(run: Run) -> Tensor:
    """Return which positions of an update are batch norms' running statistics."""
    stage = run.stages[run.progress.stage]
    marks = []
    for name in run.seats:
        if name in stage.shared and name in stage.players:
            layout = run.layouts[name]
            marks.append(torch.arange(layout.size) >= layout.trained)
    return torch.cat(marks)


def _majority(run: Run, attribute: Attribute, senders: IntArray) -> Attribute:
    registered = len(run.federation.partition)
    codes = np.full(len(senders), -1, dtype=np.int64)
    for position, sender in enumerate(senders):
        shadow = int(sender) - registered
        own = attribute.take(run.shadow_rows[shadow] if shadow >= 0 else run.federation.partition.device(int(sender)))
        if own.known.any():
            codes[position] = own.counts.argmax()
    return Attribute(attribute.name, codes, attribute.values)
