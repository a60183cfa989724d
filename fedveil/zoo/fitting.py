"""Fitting a zoo on updates whose senders' attribute is known, or on precomputed features of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn

from fedveil import __version__
from fedveil.data.attribute import IntArray
from fedveil.data.attribute_data import Split, random_split
from fedveil.errors import InputError
from fedveil.learning import Recipe, descend
from fedveil.measures import counting_units, smoothed_interval
from fedveil.models import mlp
from fedveil.randomness import torch_generator
from fedveil.updates.features import features
from fedveil.updates.segments import Segment
from fedveil.zoo.basis import columns_that_vary, leading_directions
from fedveil.zoo.members import frozen, hidden_sizes, spread_widths
from fedveil.zoo.seen import seen_rounds
from fedveil.zoo.zoo import Zoo

_AT_ONCE = 256
"""Updates whose features are computed at a time: an update may hold millions of numbers."""

Validation = float | tuple[Tensor, IntArray] | tuple[Tensor, IntArray, IntArray]


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

    share: float = 0.6
    directions: int = 512
    most_epochs: int = 12
    patience: int = 2
    batch: int = 128
    learning_rate: float = 1e-3


@dataclass(frozen=True, eq=False)
class _Known:
    """Features with the codes and the senders behind them."""

    x: Tensor
    codes: IntArray
    groups: IntArray | None

    def take(self, rows: np.ndarray) -> _Known:
        groups = None if self.groups is None else self.groups[rows]
        return _Known(self.x[torch.from_numpy(np.flatnonzero(rows))], self.codes[rows], groups)


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
    known = _known(updates, codes, groups, values, segments, how, precomputed)
    if isinstance(validation, tuple):
        train, held = known, _known(*_padded(validation), values, segments, how, precomputed)
    else:
        train, held = _split(known, validation, seed)
    classes = len(values)
    _check(train, held, values, attribute)
    prior = np.bincount(np.concatenate([train.codes, held.codes]), minlength=classes).astype(np.float64)
    varies, mean, scale = columns_that_vary(train.x)
    sizes = tuple(hidden_sizes(width, depth) for width in (spread_widths() if widths is None else widths))
    if not sizes:
        raise InputError("zoo: no members; give at least one width")
    zoo = Zoo(
        attribute=attribute,
        values=tuple(map(str, values)),
        prior=torch.from_numpy(prior / prior.sum()),
        features=how,
        segments=tuple(segments),
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
    known = _known(updates, codes, groups, zoo.values, zoo.segments, zoo.features, precomputed)
    if isinstance(validation, tuple):
        own = _padded(validation)
        train, held = known, _known(*own, zoo.values, zoo.segments, zoo.features, precomputed)
    else:
        train, held = _split(known, validation, seed)
    _check(train, held, zoo.values, zoo.attribute)
    x, x_held = zoo.standardised(train.x), zoo.standardised(held.x)
    members = []
    for place, member in enumerate(zoo.members):
        generator = torch_generator(seed, "zoo again", place)
        moving = mlp([len(zoo.mean), *zoo.sizes[place], len(zoo.values)], generator)
        moving.load_state_dict(member.state_dict())
        found = _learned(moving, (x, train.codes), (x_held, held.codes), len(zoo.values), fitting, generator)
        members.append(frozen(found))
    return _told(replace(zoo, members=tuple(members)), train, held, seed, fitting)


def _known(
    updates: Tensor,
    codes: IntArray,
    groups: IntArray | None,
    values: Sequence[str],
    segments: Sequence[Segment],
    how: str,
    precomputed: bool,
) -> _Known:
    """Compute features a few at a time, and leave out what nobody knows the value of."""
    codes = np.asarray(codes, dtype=np.int64)
    if updates.ndim != 2 or codes.shape != (len(updates),) or (groups is not None and len(groups) != len(updates)):
        raise InputError(f"zoo: {tuple(updates.shape)} updates for {codes.shape} codes; give one row and one code each")
    if len(codes) and not -1 <= int(codes.min()) <= int(codes.max()) < len(values):
        raise InputError(f"zoo: codes must be −1 (unknown) to {len(values) - 1}, one for each value")
    with torch.no_grad():
        parts = [
            part.detach() if precomputed else features(part, segments, how) for part in torch.split(updates, _AT_ONCE)
        ]
        x = torch.cat(parts).to("cpu", torch.float32) if parts else torch.zeros(0, 0)
    if not bool(torch.isfinite(x).all()):
        raise InputError("zoo: the updates hold numbers that are not finite; leave those updates out")
    return _Known(x, codes, None if groups is None else np.asarray(groups)).take(codes >= 0)


def _padded(
    validation: tuple[Tensor, IntArray] | tuple[Tensor, IntArray, IntArray],
) -> tuple[Tensor, IntArray, IntArray | None]:
    return (validation[0], validation[1], validation[2] if len(validation) == 3 else None)


def _split(known: _Known, share: float, seed: int) -> tuple[_Known, _Known]:
    if not 0 < share < 1:
        raise InputError(f"zoo: the validation share lies between 0 and 1; got {share}")
    split = random_split(
        len(known.codes), seed=seed, validation=share, test=0.0, strata=known.codes, groups=known.groups
    )
    return known.take(split == Split.TRAIN), known.take(split == Split.VALIDATION)


def _check(train: _Known, held: _Known, values: Sequence[str], attribute: str) -> None:
    counts = np.bincount(train.codes, minlength=len(values))
    if (counts > 0).sum() < 2 or len(np.unique(held.codes)) < 2:
        raise InputError(
            f"zoo: too few shadows: {len(train.codes)} updates to learn {attribute!r} from and {len(held.codes)} to "
            "validate on, and each part needs two values; use more shadows, or deal records by the attribute"
        )


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
    recipe = Recipe(learning_rate=fitting.learning_rate, patience=fitting.patience, batch=fitting.batch, fused=True)
    descend(member, (train[0][rows], u), (held[0], u_held), loss, recipe, fitting.most_epochs, generator)
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


def _told(zoo: Zoo, train: _Known, held: _Known, seed: int, fitting: Fitting) -> Zoo:
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
