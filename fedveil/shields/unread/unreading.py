"""Unreading: what a shield on updates knows beforehand, fitted on shadow clients whose attributes are known."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from fedveil.core.arrays import IntArray
from fedveil.core.errors import InputError, nearest
from fedveil.core.randomness import child_seed
from fedveil.shields.recup import Zoo, fit_zoo, refit
from fedveil.shields.unread.decoys import Decoys, decoys_of
from fedveil.shields.unread.erasure import Eraser, Erasure, inlp, leace
from fedveil.shields.unread.shaping import between_means, shaped
from fedveil.shields.unread.sides import Read, Sides
from fedveil.shields.unread.sparing import task_directions
from fedveil.updates.segments import Segment

Noise = Literal["isotropic", "means", "shaped"]
"""Of layers' inputs alone, the same in all directions; along differences of means; against readers; see `shaping`."""


@dataclass(frozen=True)
class Ingredients:
    """What is done to an update; each may be left out.

    Attributes:
        relative: the root mean square of ‖change‖/‖update‖; of replacements by decoys the mean.
        erase: take linear traces out of layers' inputs: leace, inlp or none.
        noise: shape of the noise on layers' inputs and slopes, or none.
        targets: steps through a zoo towards values drawn from the prior.
        retrained: how often readers are fitted again on defended updates; 1: on clean ones alone.
        spare: keep the change off the mean directions of the task.
        decoys: how many mean directions may be sent in an update's place; 0: never; "silence": a zero update.
    """

    relative: float = 0.3
    erase: Erasure | None = None
    noise: Noise | None = "shaped"
    targets: bool = False
    retrained: int = 6
    spare: bool = False
    decoys: Decoys = 0

    def __post_init__(self) -> None:
        if isinstance(self.relative, bool) or not 0 < self.relative < math.inf:
            raise InputError(f"unread: relative must be above 0 and finite, a share of the norm; got {self.relative}")
        for setting, value, known in (
            ("erase", self.erase, get_args(Erasure)),
            ("noise", self.noise, get_args(Noise)),
        ):
            if value is not None and value not in known:
                raise InputError(f"unread: {setting}: no {value!r}: {nearest(str(value), known)}")
        if isinstance(self.retrained, bool) or int(self.retrained) != self.retrained or self.retrained < 1:
            raise InputError(f"unread: retrained is a whole number from 1 on; got {self.retrained}")
        whole = isinstance(self.decoys, int) and not isinstance(self.decoys, bool) and self.decoys >= 0
        if not whole and self.decoys != "silence":
            raise InputError(f"unread: decoys is a whole number from 0 on, or silence; got {self.decoys!r}")
        if not (self.erase or self.noise or self.targets or self.decoys):
            raise InputError("unread: nothing is done; choose erase, noise, targets or decoys")

    @property
    def share(self) -> float:
        """What each of erasure, targets and noise may take of the norm; their squares add up."""
        others = bool(self.erase) + bool(self.targets) + bool(self.noise)
        return self.beside_decoys / math.sqrt(max(1, others))

    @property
    def beside_decoys(self) -> float:
        """What these may take together: half of the norm where there are decoys, too."""
        return self.relative / (2 if self.decoys else 1)

    @property
    def decoy_share(self) -> float:
        """What decoys may take of the norm, in the mean."""
        others = bool(self.erase) or self.targets or bool(self.noise)
        return self.relative * (0.5 if others else 1.0) if self.decoys else 0.0


@dataclass(frozen=True, eq=False)
class Unreading:
    """Erasers of layers' inputs, factors of noise, zoos, directions of the task and decoys: public, and no secret.

    Attributes:
        segments: the layout that it was fitted on.
        priors: of each attribute that is hidden, the shares of its values among the shadows.
        erasers: one for each layer's input.
        factors: (D, r) of the noise over all layers' inputs and slopes.
        zoos: for targets, one for each attribute.
        directions: (k, d) of the task.
        decoys: (k, d) mean directions.
    """

    segments: tuple[Segment, ...]
    priors: dict[str, Tensor]
    erasers: tuple[Eraser, ...] = ()
    factors: Tensor | None = None
    zoos: dict[str, Zoo] = field(default_factory=dict)
    directions: Tensor | None = None
    decoys: Tensor | None = None

    def check_parts(self, done: Ingredients) -> None:
        """Refuse ingredients that it was not fitted for: none is left out unsaid."""
        there = {
            "erase": bool(self.erasers),
            "noise": self.factors is not None,
            "targets": bool(self.zoos),
            "spare": self.directions is not None,
            "decoys": self.decoys is not None,
        }
        for name, has in there.items():
            if bool(getattr(done, name)) != has:
                asked = "not asked for, and part of the fit" if has else "asked for, and no part of the fit"
                raise InputError(f"unread: {name} is {asked}; choose as it was fitted, or fit it afresh")

    def check(self, segments: Sequence[Segment]) -> None:
        """Refuse updates of another layout."""
        if tuple(segments) != self.segments:
            raise InputError("unread: fitted for another layout than this update's; fit it on this model's updates")


def fit_unreading(
    updates: Tensor,
    codes: Mapping[str, IntArray],
    segments: Sequence[Segment],
    done: Ingredients,
    *,
    labels: IntArray | None = None,
    seed: int = 0,
) -> Unreading:
    """Fit what the ingredients need on updates of shadow clients.

    Args:
        updates: (n, d) clean updates or gradients.
        codes: of each attribute to be hidden, (n,) the senders' values; −1 where unknown, and the update is left out.
        segments: the updates' layout.
        done: the ingredients.
        labels: (n,) the task's labels, for `spare`; −1 where unknown.
        seed: of all randomness.
    """
    if not codes:
        raise InputError("unread: no attribute to hide; give the codes of at least one")
    if not torch.isfinite(updates).all():
        raise InputError("unread: shadow updates hold NaN or infinite numbers; leave those out")
    known = np.all([own >= 0 for own in codes.values()], axis=0)
    own = {name: column[known].astype(np.int64) for name, column in codes.items()}
    for name, column in own.items():
        if len(np.unique(column)) < 2:
            raise InputError(f"unread: {name}: all shadows have one value; give shadows of at least two")
    sides, rows = Sides(segments), updates[torch.from_numpy(known)]
    read, attributes = sides.read(rows), list(own.values())
    erasers: tuple[Eraser, ...] = ()
    if done.erase:
        erase = leace if done.erase == "leace" else inlp
        erasers = tuple(erase(read.values[:, layer.inputs], attributes) for layer in sides.layers)
        read = Read(erased(sides, read, erasers), read.sizes, read.norms)
    factors = None if done.noise is None else _factors(sides, read, attributes, done, seed)
    return Unreading(
        segments=tuple(segments),
        priors={name: torch.from_numpy(np.bincount(column) / len(column)) for name, column in own.items()},
        erasers=erasers,
        factors=factors,
        zoos=_zoos(rows, own, segments, done, seed) if done.targets else {},
        directions=task_directions(rows, None if labels is None else labels[known]) if done.spare else None,
        decoys=decoys_of(rows, done.decoys, seed) if done.decoys else None,
    )


def erased(sides: Sides, read: Read, erasers: Sequence[Eraser]) -> Tensor:
    """Return (n, D) readings whose inputs went through the erasers."""
    values = read.values.clone()
    for layer, eraser in zip(sides.layers, erasers, strict=True):
        values[:, layer.inputs] += eraser.motion(values[:, layer.inputs])
    return values


def _factors(sides: Sides, read: Read, attributes: list[IntArray], done: Ingredients, seed: int) -> Tensor:
    if done.noise == "shaped":
        return shaped(sides, read, attributes, done.share, done.retrained, child_seed(seed, "noise"))
    if done.noise == "means":
        return between_means(sides, read, attributes)
    inputs = torch.zeros(sides.width)
    for layer in sides.layers:
        inputs[layer.inputs] = 1 / read.values[:, layer.inputs].shape[1] ** 0.5
    return torch.diag(inputs)


def _zoos(
    updates: Tensor, codes: Mapping[str, IntArray], segments: Sequence[Segment], done: Ingredients, seed: int
) -> dict[str, Zoo]:
    """Fit a small zoo for each attribute, on max-pooled updates; then again on updates that went towards targets."""
    from fedveil.shields.unread.targets import towards

    found = {}
    share = torch.full((len(updates),), done.share, dtype=updates.dtype)
    for name, column in codes.items():
        own = child_seed(seed, "zoo", name)
        values = [str(code) for code in range(int(column.max()) + 1)]
        zoo = fit_zoo(updates, column, values, name, segments, "max", (64, 128, 256), seed=own)
        for time in range(1, min(3, done.retrained)):
            generator = torch.Generator().manual_seed(child_seed(own, "targets", time) % 2**63)
            aims = torch.multinomial(zoo.prior, len(updates), True, generator=generator)
            change = towards(updates, zoo, aims, share, time, own)
            zoo = refit(zoo, updates + change, column, seed=child_seed(own, "again", time))
        found[name] = zoo
    return found
