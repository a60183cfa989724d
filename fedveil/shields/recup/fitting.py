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
from fedveil.core.randomness import child_seed, torch_generator
from fedveil.data.attribute_data import Split
from fedveil.data.splits import random_split
from fedveil.shields.recup.members import frozen, hidden_sizes, spread_widths
from fedveil.shields.recup.seen import seen_rounds
from fedveil.shields.recup.zoo import Zoo
from fedveil.updates.features import features
from fedveil.updates.segments import Segment

_EPOCH = 320
"""With fewer updates than this an epoch has fewer than 20 steps, and members take more epochs."""

_AT_ONCE = 256
"""How many updates' features are computed at a time: an update may hold millions of numbers."""

_FAINT = 1e-3
"""A feature's scale is at least this share of the median scale, so that traces of dead units are not magnified."""

Validation = float | tuple[Tensor, IntArray] | tuple[Tensor, IntArray, IntArray]
"""The share to hold out, or other updates with their codes (and senders)."""


@dataclass(frozen=True)
class Fitting:
    """How members learn: each on a random share of the updates, until validation stalls.

    Attributes:
        share: the share of the training updates that each member sees; members differ in which updates they see, in
            their width and in their start.
        directions: the first layer learns on this many leading principal directions of the standardised features, if
            there are more features than that. Gradients of the first layer lie in the span of the data anyway; leaving
            out its faintest directions makes 5,792 features affordable. The stored layer reads the features themselves.
        most_epochs, patience, batch, learning_rate: how Adam trains each member.
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
    """Fit 3-layer networks that read an attribute from updates (RecUP-FL §4.2, §5.3).

    Args:
        updates: (n, d) updates or gradients, or their (n, f) features if `precomputed`.
        codes: (n,) which of `values` each sender has; an update with −1 (unknown) is left out.
        values: the attribute's K values.
        attribute: its name.
        segments: the layout of the updates.
        how: which features members read.
        widths: one for each member; by default 20, spread over 128–2048.
        depth: how many fully connected layers each has, 2 to 5.
        seed: for the split, the members' shares and their starts.
        validation: the share held out to stop on and to score by, or (updates, codes[, groups]) to use for it.
        groups: (n,) senders; all updates of one sender are held out together.
        started_from: by round, the weights that the updates started from, so that staleness can be computed.
        precomputed: `updates` are already features.
        fitting: how members learn.
    """
    fitting = fitting or Fitting()
    reading = _Reading(attribute, tuple(map(str, values)), tuple(segments), how, precomputed)
    train, held_out = reading.parts(updates, codes, groups, validation, seed)
    classes = len(reading.values)
    prior = np.bincount(np.concatenate([train.codes, held_out.codes]), minlength=classes).astype(np.float64)
    varies, mean, scale = _columns_that_vary(train.x)
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
    x, x_held = zoo.standardised(train.x), zoo.standardised(held_out.x)
    basis = _leading_directions(x, varies, fitting.directions, seed)
    x, x_held = (x, x_held) if basis is None else (x @ basis, x_held @ basis)
    members = []
    for index, hidden in enumerate(sizes):
        generator = torch_generator(seed, "zoo", index)
        member = mlp([len(mean), *hidden, classes], generator)
        _without_constants(member, varies)
        if basis is not None:
            _rotate(member, basis)
        member = _learned(member, (x, train.codes), (x_held, held_out.codes), classes, fitting, generator)
        if basis is not None:
            _rotate(member, basis.T)
        members.append(frozen(member))
    return _with_facts(replace(zoo, members=tuple(members)), train, held_out, seed, fitting)


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

    With `fresh`, members of the same sizes start from new weights, with these updates' means and standard deviations.
    Otherwise they continue from their present weights, with the zoo's means and standard deviations and all features,
    which takes longer for each epoch.
    """
    fitting = fitting or Fitting()
    if zoo.bits != 32:
        raise InputError(f"zoo: its members are in {zoo.bits} bits and cannot learn; refit the original zoo")
    if fresh:
        refitted = fit_zoo(
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
        return replace(refitted, seen=zoo.seen)
    reading = _Reading(zoo.attribute, zoo.values, zoo.segments, zoo.features, precomputed)
    train, held_out = reading.parts(updates, codes, groups, validation, seed)
    x, x_held = zoo.standardised(train.x), zoo.standardised(held_out.x)
    members = []
    for index, member in enumerate(zoo.members):
        generator = torch_generator(seed, "zoo again", index)
        trainable = mlp([len(zoo.mean), *zoo.sizes[index], len(zoo.values)], generator)
        trainable.load_state_dict(member.state_dict())
        learned = _learned(trainable, (x, train.codes), (x_held, held_out.codes), len(zoo.values), fitting, generator)
        members.append(frozen(learned))
    return _with_facts(replace(zoo, members=tuple(members)), train, held_out, seed, fitting)


@dataclass(frozen=True, eq=False)
class _Labelled:
    """Features of updates with their senders' codes and, if known, the senders."""

    x: Tensor
    codes: IntArray
    groups: IntArray | None

    def take(self, rows: np.ndarray) -> _Labelled:
        """Keep the rows that a mask marks."""
        groups = None if self.groups is None else self.groups[rows]
        return _Labelled(self.x[torch.from_numpy(np.flatnonzero(rows))], self.codes[rows], groups)


@dataclass(frozen=True)
class _Reading:
    """What is read from updates: which attribute, by which features; `precomputed` if they are already features."""

    attribute: str
    values: tuple[str, ...]
    segments: tuple[Segment, ...]
    how: str
    precomputed: bool

    def parts(
        self, updates: Tensor, codes: IntArray, groups: IntArray | None, validation: Validation, seed: int
    ) -> tuple[_Labelled, _Labelled]:
        """Return a part to learn from and a part that is held out; each must have at least two values."""
        labelled = self.labelled(updates, codes, groups)
        if isinstance(validation, tuple):
            held_groups = validation[2] if len(validation) == 3 else None
            train, held_out = labelled, self.labelled(validation[0], validation[1], held_groups)
            if held_out.x.shape[1:] != labelled.x.shape[1:]:
                raise InputError(
                    f"zoo: {labelled.x.shape[1]} features to learn from and {held_out.x.shape[1]} held out"
                )
        else:
            train, held_out = _split(labelled, validation, seed)
        if len(np.unique(train.codes)) < 2 or len(np.unique(held_out.codes)) < 2:
            raise InputError(
                f"zoo: too few shadows: {len(train.codes)} updates to learn {self.attribute!r} from and "
                f"{len(held_out.codes)} to validate on, and each part needs two values of it; use more shadows, or "
                "deal records to devices by the attribute"
            )
        return train, held_out

    def labelled(self, updates: Tensor, codes: IntArray, groups: IntArray | None) -> _Labelled:
        """Compute features a few updates at a time, and leave out updates whose sender's value is unknown."""
        codes = np.asarray(codes, dtype=np.int64)
        if updates.ndim != 2 or codes.shape != (len(updates),) or (groups is not None and len(groups) != len(updates)):
            raise InputError(
                f"zoo: updates of shape {tuple(updates.shape)} for {codes.size} codes; give one row, one code and, "
                "if senders are named, one sender each"
            )
        if len(codes) and not -1 <= int(codes.min()) <= int(codes.max()) < len(self.values):
            raise InputError(f"zoo: codes must be −1 (unknown) to {len(self.values) - 1}, the indices of the values")
        if self.precomputed:
            expected = features(torch.zeros(1, self.segments[-1].stop), self.segments, self.how).shape[1]
            if updates.shape[1] != expected:
                raise InputError(f"zoo: {updates.shape[1]} features of each update, but {self.how!r} has {expected}")
        with torch.no_grad():
            x = torch.cat([self._features(part) for part in torch.split(updates.detach(), _AT_ONCE)])
        if not bool(torch.isfinite(x).all()):
            raise InputError("zoo: the updates hold numbers that are not finite; leave those updates out")
        return _Labelled(x, codes, None if groups is None else np.asarray(groups)).take(codes >= 0)

    def _features(self, updates: Tensor) -> Tensor:
        inputs = updates if self.precomputed else features(updates, self.segments, self.how)
        return inputs.to("cpu", torch.float32)


def _split(labelled: _Labelled, share: float, seed: int) -> tuple[_Labelled, _Labelled]:
    """Hold out a share of the senders, each with all its updates, stratified by value."""
    if not 0 < share < 1:
        raise InputError(f"zoo: the share to validate on lies between 0 and 1; got {share}")
    split = random_split(
        len(labelled.codes), seed=seed, validation=share, test=0.0, strata=labelled.codes, groups=labelled.groups
    )
    return labelled.take(split == Split.TRAIN), labelled.take(split == Split.VALIDATION)


def _columns_that_vary(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return which features vary, and the mean and the scale of each; the scale of one that never varies is 1."""
    mean = x.double().mean(dim=0)
    deviation = x.double().std(dim=0, correction=0)
    varies = deviation > 1e-6 * mean.abs()  # rounding errors of a constant are not a signal
    scale = torch.ones_like(deviation)
    if bool(varies.any()):
        scale[varies] = deviation[varies].clamp_min(_FAINT * float(deviation[varies].median()))
    return varies, mean.to(x.dtype), scale.to(x.dtype)


def _leading_directions(x: Tensor, varies: Tensor, count: int, seed: int) -> Tensor | None:
    """Return (f, count) orthonormal directions in which standardised features vary most; None if f ≤ count.

    They are computed by random projection with two power iterations (Halko, Martinsson and Tropp 2011).
    """
    count = min(count, len(x))
    if int(varies.sum()) <= count:
        return None
    x = torch.where(varies, x, torch.zeros_like(x))
    with torch.random.fork_rng(devices=[]):  # svd_lowrank takes no generator; the global one must not change
        torch.manual_seed(child_seed(seed, "zoo's directions") % 2**63)
        basis: Tensor = torch.svd_lowrank(x, q=count, niter=2)[2]
    return basis.contiguous()


def _learned(
    member: nn.Sequential,
    train: tuple[Tensor, IntArray],
    held_out: tuple[Tensor, IntArray],
    classes: int,
    fitting: Fitting,
    generator: torch.Generator,
) -> nn.Sequential:
    """Train on the member's share of the updates; the epoch with the lowest validation loss is kept."""
    count = max(2, round(fitting.share * len(train[1])))
    rows = torch.randperm(len(train[1]), generator=generator)[:count]
    u, u_held = torch.from_numpy(train[1])[rows], torch.from_numpy(held_out[1])
    shares = torch.bincount(u, minlength=classes).float().clamp_min(1)
    loss = nn.CrossEntropyLoss(weight=len(u) / (classes * shares))
    longer = max(1, round(_EPOCH / count))  # few updates make short epochs, so more of them are allowed
    recipe = Recipe(
        learning_rate=fitting.learning_rate, patience=longer * fitting.patience, batch=fitting.batch, fused=True
    )
    descend(member, (train[0][rows], u), (held_out[0], u_held), loss, recipe, longer * fitting.most_epochs, generator)
    return member


def _without_constants(member: nn.Sequential, varies: Tensor) -> None:
    """Let a member ignore features that no shadow device moved: its weights there would stay as they were drawn."""
    first = member[0]
    assert isinstance(first, nn.Linear)
    with torch.no_grad():
        first.weight[:, ~varies] = 0


def _rotate(member: nn.Sequential, basis: Tensor) -> None:
    """Let the first layer read x·B instead of x; with Bᵀ, x again."""
    first = member[0]
    assert isinstance(first, nn.Linear)
    first.weight = nn.Parameter((first.weight.detach() @ basis).contiguous())
    first.in_features = basis.shape[1]


def _with_facts(zoo: Zoo, train: _Labelled, held_out: _Labelled, seed: int, fitting: Fitting) -> Zoo:
    """Score every member on the held-out updates, and record how the zoo was fitted."""
    classes = len(zoo.values)
    units = counting_units(held_out.codes, classes, held_out.groups)
    occurs = units > 0
    members = []
    for index in range(len(zoo.members)):
        with torch.no_grad():
            guesses = zoo.logits(index, held_out.x).argmax(dim=1).numpy()
        right = np.bincount(held_out.codes[guesses == held_out.codes], minlength=classes)
        recalls = (right / np.maximum(np.bincount(held_out.codes, minlength=classes), 1))[occurs]
        low, high = smoothed_interval(recalls, units[occurs], 0.95)
        point = float(recalls.mean())
        figure = {"estimate": point, "low": min(low, point), "high": max(high, point)}
        members.append({"balanced_accuracy": figure, "accuracy": float(right.sum() / len(held_out.codes))})
    counts = np.bincount(held_out.codes, minlength=classes)
    facts = {
        "version": __version__,
        "seed": seed,
        "fitting": asdict(fitting),
        "updates": len(train.codes),
        "validation": {
            "updates": len(held_out.codes),
            "senders": int(units.sum()),
            "majority": float(counts.max() / counts.sum()),
            "even": 1 / int(occurs.sum()),
        },
        "members": members,
    }
    return replace(zoo, facts=facts)
