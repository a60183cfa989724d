"""Unread: an update is moved where readers look, by a map that never reads the attribute's true value."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from fedveil.core.arrays import IntArray
from fedveil.core.errors import InputError
from fedveil.data.attribute_data import AttributeData
from fedveil.shields.message import Context, Kind, Message
from fedveil.shields.shield import Shield, ShieldError
from fedveil.shields.unread.directions import decoy_for, replacement_chances, spared
from fedveil.shields.unread.fitting import Ingredients, Unreading, erased, fit_unreading, load_unreading
from fedveil.shields.unread.shaping import drawn
from fedveil.shields.unread.sides import Read, Sides
from fedveil.shields.unread.targets import towards
from fedveil.updates.segments import Segment

_NUMBERS = 2**24
"""How many numbers of updates are changed at once."""


@dataclass(frozen=True, eq=False, repr=False)
class Unread(Ingredients, Shield):
    """Send g + c(g, z): an update moved where readers look, by a map that never reads the true value.

    c erases linear traces, steps towards a value drawn from the prior, adds noise shaped against readers, and sometimes
    replaces the whole update by a decoy; each may be left out. It has to be fitted on shadow devices first.
    Symbols: g an update (a gradient or a difference of weights); c the change, z the device's randomness. For a layer
    (G, b) = δ ⊗ (a, 1) erasure and noise move its input, G + b ⊗ n with one n for all outputs, and its slopes.
    Guarantee: c reads g, public figures of shadow devices and z, never u: the same update gives the same bits for every
    u. The norm of the change is `relative` of the update's in root mean square (decoys: in the mean). What readers can
    still read is an estimate; see the ablation in docs/hardened-updates.md. A zero update passes unchanged.

    Attributes:
        sticky: use the same noise, targets and coin for a device in every round, so that pooling rounds gains nothing.
        seed: the seed for the fitting.
        fit: a file that `fedveil.shields.unread.save_unreading` wrote; with null, call `fitted`, or nothing is sent.
    """

    name = "unread"
    acts_on = frozenset({Kind.GRADIENT, Kind.UPDATE})
    files = frozenset({"fit"})

    sticky: bool = False
    seed: int = 0
    fit: str | None = None
    fit_: Unreading | None = field(default=None, init=False)
    sides_: Sides | None = field(default=None, init=False)
    secrets_: dict[int, int] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.fit is not None:
            fit = load_unreading(self.fit)
            fit.check_parts(self)
            self._keep(fit)

    def _keep(self, fit: Unreading) -> None:
        vars(self).update(fit_=fit, sides_=Sides(fit.segments), secrets_={})  # only settings are frozen

    def fitted(
        self,
        updates: Tensor,
        codes: Mapping[str, IntArray],
        segments: Sequence[Segment],
        labels: IntArray | None = None,
    ) -> Unread:
        """Return the shield fitted on shadow devices' clean updates; see `fedveil.shields.unread.fit_unreading`."""
        return self.with_fit(fit_unreading(updates, codes, segments, self, labels=labels, seed=self.seed))

    def with_fit(self, fit: Unreading) -> Unread:
        """Return the shield with an existing fit."""
        shield = copy.copy(self)
        shield._keep(fit)
        return shield

    def change(self, message: Message, context: Context) -> Message:
        """Change every row, each with its own randomness."""
        rows = message.values.flatten(1)
        return message.with_values(self._sent(rows, [context] * len(rows)).view(message.values.shape))

    def prepared(self, data: AttributeData, seed: int) -> Unread:
        """Refuse a shield that was not fitted: no device would send anything."""
        if self.fit_ is None:
            raise InputError("unread: not fitted yet; call fitted(updates, codes, segments), or name a file: fit=…")
        return self

    def change_all(self, updates: Tensor, contexts: Sequence[Context]) -> Tensor:
        """Change every device's update, many as one batch."""
        at_once = max(1, _NUMBERS // max(1, updates.shape[1]))
        parts = [
            self._sent(part, contexts[index * at_once : (index + 1) * at_once])
            for index, part in enumerate(torch.split(updates, at_once))
        ]
        return torch.cat(parts) if parts else updates.clone()

    def _sent(self, updates: Tensor, contexts: Sequence[Context]) -> Tensor:
        fit, sides = self.fit_, self.sides_
        if fit is None or sides is None:
            raise ShieldError("unread was not fitted on shadow devices' updates, so nothing is sent; call fitted(…)")
        for segments in {id(context.segments): context.segments for context in contexts}.values():
            fit.check(segments)
        if not len(updates):
            return updates.clone()
        generators = [self._generator(context) for context in contexts]
        read = sides.read(updates)
        motion = torch.zeros_like(read.values)
        if fit.erasers:
            motion = self._bounded(sides, updates, read, erased(sides, read, fit.erasers) - read.values)
        sent = sides.moved(updates, read, motion)
        if fit.zoos:
            share = torch.full_like(read.norms, self.share / len(fit.zoos) ** 0.5)
            for name, zoo in fit.zoos.items():
                zoo.check(fit.segments, name)
                targets = torch.cat([torch.multinomial(zoo.prior, 1, generator=generator) for generator in generators])
                sent = sent + towards(updates, zoo, targets, share, 0 if self.sticky else contexts[0].round, self.seed)
        if fit.factors is not None:
            spent = torch.linalg.vector_norm(sent - updates, dim=1) / torch.where(read.norms > 0, read.norms, 1.0)
            remaining = (self.beside_decoys**2 - spent.square()).clamp_min(0).sqrt()
            z = torch.stack([torch.randn(fit.factors.shape[1], generator=generator) for generator in generators])
            current = sides.read(sent)
            sent = sides.moved(sent, current, drawn(sides, current, fit.factors, remaining, z))
        if fit.directions is not None:
            sent = updates + spared(sent - updates, fit.directions.to(updates))
        if fit.decoys is not None:
            decoys = decoy_for(updates, fit.decoys.to(updates))
            coins = torch.cat([torch.rand(1, generator=generator) for generator in generators]).to(updates)
            replaced = coins < replacement_chances(updates, decoys, self.decoy_share)
            sent = torch.where(replaced[:, None], decoys, sent)
        return torch.where(read.norms[:, None] > 0, sent, updates)

    def _bounded(self, sides: Sides, updates: Tensor, read: Read, motion: Tensor) -> Tensor:
        """Return as much of an eraser's motion as its share of the norm allows."""
        change = sides.moved(updates, read, motion) - updates
        length = torch.linalg.vector_norm(change, dim=1)
        allowed = self.share * read.norms
        return motion * torch.where(length > allowed, allowed / length.clamp_min(1e-30), 1.0)[:, None]

    def _generator(self, context: Context) -> torch.Generator:
        """Return the device's randomness: this message's, or, if it is sticky, the same for every message."""
        if not self.sticky:
            return context.generator
        if context.device not in self.secrets_:
            self.secrets_[context.device] = int(torch.randint(2**62, (1,), generator=context.generator))
        return torch.Generator().manual_seed(self.secrets_[context.device])
