"""What the server saw during training: updates by sender and round, and shadow devices through the same pipeline.

Shadow devices belong to the attacker: they hold validation records whose attributes it knows, start from the same
shared weights, train by the same game and send through the same shield, but their updates are not aggregated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

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
from fedveil.federation.exchange import segments_of, send_updates, sent_players
from fedveil.federation.records import varying
from fedveil.federation.work import device_states, work_of
from fedveil.games.game import Stage
from fedveil.updates.features import features
from fedveil.view import EVERY_OBSERVER, UPDATE_VIEWS, Capability, Pool, View

if TYPE_CHECKING:
    from fedveil.federation.run import Run

Recorded = tuple[int, IntArray, Tensor]
"""A round, the devices that sent something in it, and what each of them sent."""

Question = Literal["majority", "more than usual"]
Label = Callable[[IntArray, IntArray], int]
"""Returns a device's label from its own counts of an attribute's values and those of all training records."""


def shadow_rows(run: Run, shadows: int) -> list[IntArray]:
    """Deal the validation records to this many shadow devices, as the real devices were dealt theirs.

    The federation's partitioner deals them, so that shadows are as uneven as the devices they stand for. If it makes
    every group or record a device, this many of these devices are drawn.
    """
    data, seed = run.federation.data, run.federation.seed
    rows = data.rows(Split.VALIDATION)
    if shadows < 0 or len(rows) < shadows:
        raise InputError(f"{shadows} shadow devices for {len(rows)} validation records; ask for fewer, but at least 0")
    dealer = run.federation.devices if isinstance(run.federation.devices, Partitioner) else IID(shadows)
    if getattr(dealer, "devices", None) is not None:
        dealer = replace(dealer, devices=shadows)  # type: ignore[type-var]
    validation = data.take(rows)
    try:
        dealt = dealer.deal(
            replace(validation, split=np.full(len(validation), Split.TRAIN, dtype=np.int8)), child_seed(seed, "shadows")
        )
    except InputError as fault:
        raise InputError(f"{shadows} shadow devices cannot be dealt {len(rows)} validation records: {fault}") from None
    if len(dealt) < shadows:
        raise InputError(f"{shadows} shadow devices, but the validation records make {len(dealt)}; ask for fewer")
    drawn = np.sort(numpy_generator(seed, "shadows").choice(len(dealt), shadows, replace=False))
    return [np.sort(rows[dealt.device(int(device))]) for device in drawn]


@dataclass(frozen=True, eq=False)
class Seen:
    """What is kept of a recorded round in addition to the devices' updates.

    Attributes:
        started_from: the shared weights before the server moved them, in the order of an update.
        shadows: what the shadow devices sent.
    """

    started_from: Tensor
    shadows: list[Recorded]


def watch(run: Run, stage: Stage, number: int) -> Seen:
    """Return what is kept of a round before the server moves: the shared weights, and what shadow devices send.

    Shadow devices are numbered after the real ones, and shadow i has the settings of real device i.
    """
    weights = torch.cat([run.shared[name] for name in sent_players(run, stage)])
    rows, registered = run.shadow_rows, len(run.federation.partition)
    if not rows:
        return Seen(weights, [])
    shadows = registered + np.arange(len(rows), dtype=np.int64)
    work = replace(work_of(run, stage, number, np.arange(len(rows)) % registered), devices=shadows, rows=rows)
    if run.federation.own_attribute is not None and "u:own" in work.data:
        work = replace(work, data={**work.data, "u:own": _protected_codes(run, rows)})
    variety = {
        name: varying(work.data[f"u:{name.partition(':')[2]}"], rows)
        for name in work.data
        if name.startswith("varies:")
    }
    work = replace(work, data={**work.data, **variety})
    sent = send_updates(run, work, run.engine.play(work, *device_states(run, stage, shadows)))
    return Seen(weights, [(number, shadows[sent.speaking], sent.updates)] if len(sent.speaking) else [])


def _protected_codes(run: Run, shadow_rows: list[IntArray]) -> Tensor:
    """Give shadow devices the attribute that their real counterparts protect."""
    codes = run.tensors["u:own"].clone()
    chosen = run.federation.own_attribute or ()
    for shadow, rows in enumerate(shadow_rows):
        attribute = run.federation.data.attributes[chosen[shadow % len(chosen)]]
        codes[torch.from_numpy(rows).to(codes.device)] = torch.from_numpy(attribute.codes[rows]).to(codes.device)
    return codes


def update_view(run: Run, what: str = "updates", seed: int = 0) -> View:
    """Return a view of the recorded rounds: what devices sent, labelled by their majority value of each attribute.

    `what` is "updates", "parameters" (the weights after the device's work) or "statistics" (the batch norms'
    running statistics that left). The attacker learns from shadow devices if there were any, and otherwise
    from some of the real devices, which are then never its victims.
    """
    if not run.recorded:
        raise InputError("no updates were recorded; play with record=[rounds to keep]")
    grants = EVERY_OBSERVER | {Capability.SENDERS, Capability.ROUNDS}
    victims = _pool(run, run.recorded, what)
    if not run.shadows:
        view = View.of_vectors(
            victims.vectors, victims.attributes, groups=victims.groups, rounds=victims.rounds, seed=seed
        )
        return replace(view, grants=grants)
    shadows = _pool(run, run.shadows, what)
    strata = joint_strata(list(shadows.attributes.values()))  # so that a value that few shadows have is in both parts
    split = random_split(len(shadows), seed=seed, validation=0.3, test=0.0, strata=strata, groups=shadows.groups)
    held_out = split == Split.VALIDATION
    return View(shadows.take(~held_out), shadows.take(held_out), victims, grants=grants)


def feature_view(
    run: Run, how: str = "direction", *, question: Question = "majority", by_device: bool = False, seed: int = 0
) -> View:
    """Return the server's view of features of the recorded updates; any panel may judge it.

    Every round is centred on its mean: the server sees all updates of a round, and what they have in common reveals
    nothing about a single sender.

    Args:
        run: a run with recorded rounds.
        how: which features; see `features`.
        question: what is asked about a sender: its most frequent value, or the value that it has more of than usual,
            which differs between devices even if all have the same majority.
        by_device: take the mean over each device's rounds, one vector per device: the server knows who sent what.
        seed: for the split into the attacker's devices and the victims.
    """
    if question not in ("majority", "more than usual"):
        raise InputError(f"updates: question must be 'majority' or 'more than usual', got {question!r}")
    view = update_view(run, "updates", seed)
    segments = segments_of(run)
    pools = [view.auxiliary, view.validation, view.victims]
    vectors = [features(torch.from_numpy(pool.vectors), segments, how).numpy() for pool in pools]
    rounds = [np.zeros(len(pool), dtype=np.int64) if pool.rounds is None else pool.rounds for pool in pools]
    centred = centred_by_round(vectors, rounds)
    pools = [replace(pool, vectors=values) for pool, values in zip(pools, centred, strict=True)]
    if question == "more than usual":
        pools = [_relabelled(run, pool, unusual_value) for pool in pools]
    auxiliary, validation, victims = (by_sender(pool) if by_device else pool for pool in pools)
    return View(auxiliary, validation, victims, grants=view.grants)


def device_labels(run: Run, name: str, senders: IntArray, label: Label) -> Attribute:
    """Return a label of each sender, from its counts of an attribute's values and those of all training records.

    A sender without a known value has none (−1). Senders numbered after the real devices are shadows.
    """
    attribute, registered = run.federation.data.attribute(name), len(run.federation.partition)
    population = attribute.take(run.federation.data.rows(Split.TRAIN)).counts
    codes: dict[int, int] = {}
    for sender in np.unique(senders).tolist():
        real = sender < registered
        rows = run.federation.partition.device(sender) if real else run.shadow_rows[sender - registered]
        counts = attribute.take(rows).counts
        codes[sender] = label(counts, population) if counts.sum() else -1
    return Attribute(name, np.array([codes[sender] for sender in senders.tolist()], dtype=np.int64), attribute.values)


def majority_value(counts: IntArray, population: IntArray) -> int:
    """Return a device's most frequent value.

    >>> majority_value(np.array([2, 5]), np.array([670, 330]))
    1
    """
    return int(counts.argmax())


def unusual_value(counts: IntArray, population: IntArray) -> int:
    """Return the value whose share on the device is farthest above its share in the population.

    Distances are measured in standard deviations of a device drawn at random.

    >>> unusual_value(np.array([50, 50]), np.array([670, 330]))
    1
    """
    usual = population / population.sum()
    spread = np.sqrt(usual * (1 - usual))
    excess = (counts / counts.sum() - usual) / np.where(spread > 0, spread, 1)
    return int(np.argmax(np.where(spread > 0, excess, -np.inf)))


def centred_by_round(vectors: list[FloatArray], rounds: list[IntArray]) -> list[FloatArray]:
    """Subtract each round's mean, taken over shadows and real devices together, as the server would."""
    numbers, index = np.unique(np.concatenate(rounds), return_inverse=True)
    means = np.zeros((len(numbers), vectors[0].shape[1]))
    np.add.at(means, index, np.concatenate(vectors))
    means /= np.bincount(index)[:, None]
    return [rows - means[np.searchsorted(numbers, when)] for rows, when in zip(vectors, rounds, strict=True)]


def by_sender(pool: Pool) -> Pool:
    """Take the mean over each sender's rounds, one vector per sender."""
    assert pool.groups is not None
    senders, first, index = np.unique(pool.groups, return_index=True, return_inverse=True)
    total = np.zeros((len(senders), pool.vectors.shape[1]))
    np.add.at(total, index, pool.vectors)
    return replace(pool.take(first), vectors=total / np.bincount(index)[:, None], rounds=None)


def _relabelled(run: Run, pool: Pool, label: Label) -> Pool:
    assert pool.groups is not None
    return replace(pool, attributes={name: device_labels(run, name, pool.groups, label) for name in pool.attributes})


def _pool(run: Run, recorded: list[Recorded], what: str) -> Pool:
    """Return what devices sent in recorded rounds, with their majority value of each attribute."""
    if what not in UPDATE_VIEWS:
        raise InputError(f"no view of {what!r}: choose {', '.join(UPDATE_VIEWS)}")
    chosen = []
    for number, _, updates in recorded:
        values = updates + run.started_from[number] if what != "updates" else updates
        chosen.append(values[:, _statistics(run)] if what == "statistics" else values)
    vectors = torch.cat(chosen).cpu().numpy().astype(np.float64)
    if not vectors.shape[1]:
        raise InputError("no statistics left the devices: the shared players have no batch norm")
    senders = np.concatenate([devices for _, devices, _ in recorded])
    labels = {name: device_labels(run, name, senders, majority_value) for name in run.federation.data.attributes}
    rounds = np.concatenate([np.full(len(devices), number) for number, devices, _ in recorded])
    return Pool(vectors, labels, senders, rounds=rounds)


def _statistics(run: Run) -> Tensor:
    """Return which positions of an update are batch norms' running statistics."""
    layouts = [run.layouts[name] for name in sent_players(run, run.stages[run.progress.stage])]
    return torch.cat([torch.arange(layout.size) >= layout.trained for layout in layouts])
