"""Fitting a zoo on updates whose senders' attribute is known, or on precomputed features of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn

from fedveil import __version__
from fedveil.core.arrays import IntArray
from fedveil.core.errors import InputError
from fedveil.core.learning import Recipe, descend
from fedveil.core.measures import counting_units, smoothed_interval
from fedveil.core.models import mlp
from fedveil.core.randomness import torch_generator
from fedveil.shields.recup.basis import columns_that_vary, leading_directions
from fedveil.shields.recup.labelled import Known, Reading, Validation
from fedveil.shields.recup.members import frozen, hidden_sizes, spread_widths
from fedveil.shields.recup.seen import seen_rounds
from fedveil.shields.recup.zoo import Zoo
from fedveil.updates.segments import Segment

_EPOCH = 320
"""With fewer updates than this an epoch has fewer than 20 steps, and members take more epochs."""


@dataclass(frozen=True)
class Fitting:
    """How members learn: each on its own random share of the updates, until validation stalls.

    Attributes:
        share: of the training updates that each member sees; members differ by it, by their width and by their start.
        directions: the first layer learns on so many leading principal directions of the standardised features, where
            there are more features than that. Gradients of the first layer lie in the span of the data anyway; leaving
            out its faintest directions makes 5,792 features affordable. The stored layer reads the features themselves.
        most_epochs, patience, batch, learning_rate: of Adam.
    """

    share: float = 0.7
    directions: int = 512
    most_epochs: int = 12
    patience: int = 2
    batch: int = 128
    learning_rate: float = 1e-3

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1 or min(self.directions, self.most_epochs, self.batch) < 1:
            raise InputError("zoo: fitting needs a share between 0 and 1, and at least one direction, epoch and record")


def fit_zoo(
    updates: Tensor,
    codes: IntArray,
    values: Sequence[str],
    attribute: str,
    segments: Sequence[Segment],
    how: str = "max",
    widths: Sequence[int] | None = None,
    depth: int = 3,
    seed: int = 0,
    validation: Validation = 0.2,
    *,
    groups: IntArray | None = None,
    started_from: Mapping[int, Tensor] | None = None,
    precomputed: bool = False,
    fitting: Fitting | None = None,
) -> Zoo:
    """Fit 3-layer networks that tell an attribute from updates (RecUP-FL §4.2, §5.3).

    Args:
        updates: (n, d) updates or gradients, or their (n, f) features where `precomputed`.
        codes: (n,) which of `values` each sender has; −1 where nobody knows, and the update is left out.
        values: the attribute's K values.
        attribute: its name.
        segments: the layout of the updates.
        how: which features members read.
        widths: one for each member; 20 spread over 128–2048 by default.
        depth: fully connected layers of each, 2 to 5.
        seed: of the split, the members' shares and their starts.
        validation: the share held out to stop on and to score by, or (updates, codes[, groups]) to use for it.
        groups: (n,) senders; all updates of one are held out together.
        started_from: by round, the weights that the updates started from, so that staleness can be told.
        precomputed: `updates` are features already.
        fitting: how members learn.
    """
    fitting = fitting or Fitting()
    reading = Reading(attribute, tuple(map(str, values)), tuple(segments), how, precomputed)
    train, held = reading.parts(updates, codes, groups, validation, seed)
    classes = len(reading.values)
    prior = np.bincount(np.concatenate([train.codes, held.codes]), minlength=classes).astype(np.float64)
    varies, mean, scale = columns_that_vary(train.x)
    sizes = tuple(hidden_sizes(width, depth) for width in (spread_widths() if widths is None else widths))
    if not sizes:
        raise InputError("zoo: no members; give at least one width")
    zoo = Zoo(
        attribute=attribute,
        values=reading.values,
        prior=torch.from_numpy(prior / prior.sum()),
        features=how,
        segments=reading.segments,
        mean=mean,
        scale=scale,
        members=(),
        sizes=sizes,
        seen=seen_rounds(started_from or {}, segments),
    )
    x, x_held = zoo.standardised(train.x), zoo.standardised(held.x)
    basis = leading_directions(x, varies, fitting.directions, seed)
    x, x_held = (x, x_held) if basis is None else (x @ basis, x_held @ basis)
    members = []
    for place, hidden in enumerate(sizes):
        generator = torch_generator(seed, "zoo", place)
        member = mlp([len(mean), *hidden, classes], generator)
        _without_constants(member, varies)
        if basis is not None:
            _rotate(member, basis)
        member = _learned(member, (x, train.codes), (x_held, held.codes), classes, fitting, generator)
        if basis is not None:
            _rotate(member, basis.T)
        members.append(frozen(member))
    return _told(replace(zoo, members=tuple(members)), train, held, seed, fitting)


def refit(
    zoo: Zoo,
    updates: Tensor,
    codes: IntArray,
    *,
    seed: int = 0,
    validation: Validation = 0.2,
    groups: IntArray | None = None,
    precomputed: bool = False,
    fresh: bool = True,
    fitting: Fitting | None = None,
) -> Zoo:
    """Fit a zoo's members to other updates, such as defended ones: what an attacker who knows the shield would do.

    With `fresh` members of the same sizes start anew, on these updates' own means and deviations. Otherwise they go on
    from what they are, with the zoo's means and deviations and all features, which takes longer for each epoch.
    """
    fitting = fitting or Fitting()
    if zoo.bits != 32:
        raise InputError(f"zoo: its members are in {zoo.bits} bits and cannot learn; refit the zoo that was fitted")
    if fresh:
        again = fit_zoo(
            updates,
            codes,
            zoo.values,
            zoo.attribute,
            zoo.segments,
            zoo.features,
            [hidden[0] for hidden in zoo.sizes],
            len(zoo.sizes[0]) + 1,
            seed,
            validation,
            groups=groups,
            precomputed=precomputed,
            fitting=fitting,
        )
        return replace(again, seen=zoo.seen)
    reading = Reading(zoo.attribute, zoo.values, zoo.segments, zoo.features, precomputed)
    train, held = reading.parts(updates, codes, groups, validation, seed)
    x, x_held = zoo.standardised(train.x), zoo.standardised(held.x)
    members = []
    for place, member in enumerate(zoo.members):
        generator = torch_generator(seed, "zoo again", place)
        moving = mlp([len(zoo.mean), *zoo.sizes[place], len(zoo.values)], generator)
        moving.load_state_dict(member.state_dict())
        found = _learned(moving, (x, train.codes), (x_held, held.codes), len(zoo.values), fitting, generator)
        members.append(frozen(found))
    return _told(replace(zoo, members=tuple(members)), train, held, seed, fitting)


def _learned(
    member: nn.Sequential,
    train: tuple[Tensor, IntArray],
    held: tuple[Tensor, IntArray],
    classes: int,
    fitting: Fitting,
    generator: torch.Generator,
) -> nn.Sequential:
    """Train on the member's own share of the updates; the epoch with the lowest validation loss is kept."""
    count = max(2, round(fitting.share * len(train[1])))
    rows = torch.randperm(len(train[1]), generator=generator)[:count]
    u, u_held = torch.from_numpy(train[1])[rows], torch.from_numpy(held[1])
    shares = torch.bincount(u, minlength=classes).float().clamp_min(1)
    loss = nn.CrossEntropyLoss(weight=len(u) / (classes * shares))
    longer = max(1, round(_EPOCH / count))  # a few updates make epochs of a few steps: more of these, then
    recipe = Recipe(
        learning_rate=fitting.learning_rate, patience=longer * fitting.patience, batch=fitting.batch, fused=True
    )
    descend(member, (train[0][rows], u), (held[0], u_held), loss, recipe, longer * fitting.most_epochs, generator)
    return member


def _without_constants(member: nn.Sequential, varies: Tensor) -> None:
    """Let a member ignore features that no shadow moved: its weights there would stay as they were drawn."""
    first = member[0]
    assert isinstance(first, nn.Linear)
    with torch.no_grad():
        first.weight[:, ~varies] = 0


def _rotate(member: nn.Sequential, basis: Tensor) -> None:
    """Let the first layer read x·B in place of x; by Bᵀ, x again."""
    first = member[0]
    assert isinstance(first, nn.Linear)
    first.weight = nn.Parameter((first.weight.detach() @ basis).contiguous())
    first.in_features = basis.shape[1]


def _told(zoo: Zoo, train: Known, held: Known, seed: int, fitting: Fitting) -> Zoo:
    """Score every member on the held-out updates, and write down how the zoo came to be."""
    classes = len(zoo.values)
    units = counting_units(held.codes, classes, held.groups)
    there = units > 0
    members = []
    for place in range(len(zoo.members)):
        with torch.no_grad():
            guesses = zoo.logits(place, held.x).argmax(dim=1).numpy()
        right = np.bincount(held.codes[guesses == held.codes], minlength=classes)
        recalls = (right / np.maximum(np.bincount(held.codes, minlength=classes), 1))[there]
        low, high = smoothed_interval(recalls, units[there], 0.95)
        point = float(recalls.mean())
        figure = {"estimate": point, "low": min(low, point), "high": max(high, point)}
        members.append({"balanced_accuracy": figure, "accuracy": float(right.sum() / len(held.codes))})
    counts = np.bincount(held.codes, minlength=classes)
    facts = {
        "version": __version__,
        "seed": seed,
        "fitting": asdict(fitting),
        "updates": len(train.codes),
        "validation": {
            "updates": len(held.codes),
            "senders": int(units.sum()),
            "majority": float(counts.max() / counts.sum()),
            "even": 1 / int(there.sum()),
        },
        "members": members,
    }
    return replace(zoo, facts=facts)
