"""What the server saw of updates, as features, and what it is asked about their senders."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch

from fedveil.core.arrays import FloatArray, IntArray
from fedveil.core.errors import InputError
from fedveil.data.attribute import Attribute
from fedveil.data.attribute_data import Split
from fedveil.federation.layout import segments_of
from fedveil.federation.recording import update_view
from fedveil.updates.features import features
from fedveil.view import Pool, View

if TYPE_CHECKING:
    from fedveil.federation.run import Run

Asked = Literal["majority", "more than usual"]


def feature_view(
    run: Run, how: str = "direction", *, asked: Asked = "majority", by_device: bool = False, seed: int = 0
) -> View:
    """Let the server see features of the recorded updates; any panel may judge the view.

    Every round is centred on its mean: the server sees all updates of a round, and what they have in common tells
    nothing of one sender.

    Args:
        how: which features; see `features`.
        asked: what is asked about a sender: its most frequent value, or the value that it has more of than usual, which
            differs between devices even where all have the same majority.
        by_device: take the mean over a device's rounds, one vector each: the server knows who sent what.
        seed: of the split into attacker's devices and victims.
    """
    if asked not in ("majority", "more than usual"):
        raise InputError(f"updates: asked must be 'majority' or 'more than usual', got {asked!r}")
    view = update_view(run, "updates", seed)
    segments = segments_of(run)
    pools = [view.auxiliary, view.validation, view.victims]
    vectors = [features(torch.from_numpy(pool.vectors), segments, how).numpy() for pool in pools]
    rounds = [np.zeros(len(pool), dtype=np.int64) if pool.rounds is None else pool.rounds for pool in pools]
    ready = [replace(pool, vectors=own) for pool, own in zip(pools, centred_by_round(vectors, rounds), strict=True)]
    if asked == "more than usual":
        ready = [_relabelled(run, pool, unusual_value) for pool in ready]
    auxiliary, validation, victims = (by_sender(pool) if by_device else pool for pool in ready)
    return View(auxiliary, validation, victims, grants=view.grants)


def device_labels(run: Run, name: str, senders: IntArray, label: Callable[[IntArray, IntArray], int]) -> Attribute:
    """Return what is true of each sender: `label` of its counts of an attribute's values and of everybody's.

    A sender without a known value has none (−1). Senders numbered behind the real devices are shadows.
    """
    attribute, registered = run.federation.data.attribute(name), len(run.federation.partition)
    everybody = attribute.take(run.federation.data.rows(Split.TRAIN)).counts
    codes: dict[int, int] = {}
    for sender in np.unique(senders).tolist():
        held = sender < registered
        rows = run.federation.partition.device(sender) if held else run.shadow_rows[sender - registered]
        own = attribute.take(rows).counts
        codes[sender] = label(own, everybody) if own.sum() else -1
    return Attribute(name, np.array([codes[sender] for sender in senders.tolist()], dtype=np.int64), attribute.values)


def unusual_value(own: IntArray, everybody: IntArray) -> int:
    """Return the value whose share is farthest above everybody's, in deviations of a device drawn at random.

    >>> unusual_value(np.array([50, 50]), np.array([670, 330]))
    1
    """
    usual = everybody / everybody.sum()
    spread = np.sqrt(usual * (1 - usual))
    return int(np.argmax(np.where(spread > 0, (own / own.sum() - usual) / np.where(spread > 0, spread, 1), -np.inf)))


def _relabelled(run: Run, pool: Pool, label: Callable[[IntArray, IntArray], int]) -> Pool:
    assert pool.groups is not None
    return replace(pool, attributes={name: device_labels(run, name, pool.groups, label) for name in pool.attributes})


def centred_by_round(vectors: list[FloatArray], rounds: list[IntArray]) -> list[FloatArray]:
    """Take away each round's mean; the attacker's shadows' and the real devices' together, as the server would."""
    seen, place = np.unique(np.concatenate(rounds), return_inverse=True)
    means = np.zeros((len(seen), vectors[0].shape[1]))
    np.add.at(means, place, np.concatenate(vectors))
    means /= np.bincount(place)[:, None]
    return [own - means[np.searchsorted(seen, when)] for own, when in zip(vectors, rounds, strict=True)]


def by_sender(pool: Pool) -> Pool:
    """Take the mean over a sender's rounds, one vector each."""
    assert pool.groups is not None
    senders, first, place = np.unique(pool.groups, return_index=True, return_inverse=True)
    total = np.zeros((len(senders), pool.vectors.shape[1]))
    np.add.at(total, place, pool.vectors)
    return replace(pool.take(first), vectors=total / np.bincount(place)[:, None], rounds=None)
