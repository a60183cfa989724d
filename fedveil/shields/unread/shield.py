"""Unread: an update moved where readers look, by a map that never sees the attribute's true value."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from fedveil.core.arrays import IntArray
from fedveil.core.errors import InputError
from fedveil.data.attribute_data import AttributeData
from fedveil.shields.message import Context, Kind, Message
from fedveil.shields.shield import Shield, ShieldError
from fedveil.shields.unread.decoys import Decoys, chances, decoy_for
from fedveil.shields.unread.erasure import Erasure
from fedveil.shields.unread.shaping import drawn
from fedveil.shields.unread.sides import Read, Sides
from fedveil.shields.unread.sparing import spared
from fedveil.shields.unread.targets import towards
from fedveil.shields.unread.unreading import Ingredients, Noise, Unreading, erased, fit_unreading
from fedveil.updates.segments import Segment

_NUMBERS = 2**24
"""How many numbers of updates are changed at once."""


class Unread(Shield):
    """Send g + c(g, z): an update moved where readers look, by a map that never sees the true value.

    c erases linear traces, steps towards a value drawn from the prior, adds noise shaped against readers, and now and
    then puts a decoy in place of all of it; each may be left out. It has to be fitted on shadow clients first.
    Symbols: g an update (a gradient or a difference of weights); c the change, z the device's own randomness. For a
    layer (G, b) = δ ⊗ (a, 1) erasure and noise move its input, G + b ⊗ n with one n for all outputs, and its slopes.
    Guarantee: c reads g, public figures of shadow clients and z, never u: same update, any u, same bits. The norm of
    the change is `relative` of the update's in root mean square (decoys: in the mean). What readers can still tell is
    an estimate; see the ablation in docs/hardened-updates.md. A zero update passes unharmed.

    Attributes:
        relative: ‖change‖/‖update‖.
        erase: leace (Belrose et al. 2023), inlp (Ravfogel et al. 2020), or null.
        noise: shaped (against readers), means (along the values' means), isotropic (on layers' inputs), or null.
        targets: steps through a zoo towards a value drawn from the prior.
        retrained: how often readers and zoo are fitted again on defended updates while the shield is fitted; 1: never.
        spare: keep the change off the task's mean directions.
        decoys: how many mean directions of shadow updates there are; now and then one is sent instead; 0: none;
            silence: now and then a zero update.
        sticky: a device's noise, targets and coin are the same in every round, so that pooling them gains nothing.
        seed: of the fitting.
        fit: a file that `fedveil.shields.unread.save_unreading` wrote; null: call `fitted`, or nothing is sent.
    """

    name = "unread"
    acts_on = frozenset({Kind.GRADIENT, Kind.UPDATE})

    def __init__(
        self,
        relative: float = 0.3,
        erase: Erasure | None = None,
        noise: Noise | None = "shaped",
        targets: bool = False,
        retrained: int = 6,
        spare: bool = False,
        decoys: Decoys = 0,
        sticky: bool = False,
        seed: int = 0,
        fit: str | None = None,
    ) -> None:
        done = Ingredients(relative, erase, noise, targets, retrained, spare, decoys)
        self.relative, self.erase, self.noise, self.targets = done.relative, erase, noise, targets
        self.retrained, self.spare, self.decoys, self.sticky, self.seed = retrained, spare, decoys, sticky, seed
        self.done_ = done
        self.fit_: Unreading | None = None
        self.sides_: Sides | None = None
        self.secrets_: dict[int, int] = {}
        self.fit = fit
        if fit is not None:
            from fedveil.shields.unread.file import load_unreading

            self.fit_ = load_unreading(fit)
            self.fit_.check_parts(done)
            self.sides_ = Sides(self.fit_.segments)

    def fitted(
        self,
        updates: Tensor,
        codes: Mapping[str, IntArray],
        segments: Sequence[Segment],
        labels: IntArray | None = None,
    ) -> Unread:
        """Return the shield fitted on shadow clients' clean updates; see `fedveil.shields.unread.fit_unreading`."""
        return self.with_fit(fit_unreading(updates, codes, segments, self.done_, labels=labels, seed=self.seed))

    def with_fit(self, fit: Unreading) -> Unread:
        """Return the shield with what was fitted before."""
        made = copy.copy(self)
        made.fit_, made.sides_, made.secrets_ = fit, Sides(fit.segments), {}
        return made

    def change(self, message: Message, context: Context) -> Message:
        """Change every row, each with randomness of its own."""
        rows = message.values.flatten(1)
        return message.with_values(self._sent(rows, [context] * len(rows)).view(message.values.shape))

    def prepared(self, data: AttributeData, seed: int) -> Unread:
        """Refuse a shield that was not fitted: every device would be silent."""
        if self.fit_ is None:
            raise InputError("unread: is not fitted; call fitted(updates, codes, segments), or name a file: fit=…")
        return self

    def change_all(self, updates: Tensor, contexts: Sequence[Context]) -> Tensor:
        """Change every device's update, many as one batch."""
        at_once = max(1, _NUMBERS // max(1, updates.shape[1]))
        parts = [
            self._sent(part, contexts[place * at_once : (place + 1) * at_once])
            for place, part in enumerate(torch.split(updates, at_once))
        ]
        return torch.cat(parts) if parts else updates.clone()

    def _sent(self, updates: Tensor, contexts: Sequence[Context]) -> Tensor:
        fit, sides, done = self.fit_, self.sides_, self.done_
        if fit is None or sides is None:
            raise ShieldError("unread was not fitted on shadow clients' updates, so nothing is sent; call fitted(…)")
        for segments in {id(context.segments): context.segments for context in contexts}.values():
            fit.check(segments)
        if not len(updates):
            return updates.clone()
        generators = [self._generator(context) for context in contexts]
        read = sides.read(updates)
        motion = torch.zeros_like(read.values)
        if fit.erasers:
            motion = self._bounded(updates, read, erased(sides, read, fit.erasers) - read.values)
        sent = sides.moved(updates, read, motion)
        if fit.zoos:
            share = torch.full_like(read.norms, done.share / len(fit.zoos) ** 0.5)
            for name, zoo in fit.zoos.items():
                zoo.check(fit.segments, name)
                aims = torch.cat([torch.multinomial(zoo.prior, 1, generator=own) for own in generators])
                sent = sent + towards(updates, zoo, aims, share, 0 if self.sticky else contexts[0].round, self.seed)
        if fit.factors is not None:
            used = torch.linalg.vector_norm(sent - updates, dim=1) / torch.where(read.norms > 0, read.norms, 1.0)
            left = (done.beside_decoys**2 - used.square()).clamp_min(0).sqrt()
            z = torch.stack([torch.randn(fit.factors.shape[1], generator=own) for own in generators])
            now = sides.read(sent)
            sent = sides.moved(sent, now, drawn(sides, now, fit.factors, left, z))
        if fit.directions is not None:
            sent = updates + spared(sent - updates, fit.directions.to(updates))
        if fit.decoys is not None:
            instead = decoy_for(updates, fit.decoys.to(updates))
            coins = torch.cat([torch.rand(1, generator=own) for own in generators]).to(updates)
            replaced = coins < chances(updates, instead, done.decoy_share)
            sent = torch.where(replaced[:, None], instead, sent)
        return torch.where(read.norms[:, None] > 0, sent, updates)

    def _bounded(self, updates: Tensor, read: Read, motion: Tensor) -> Tensor:
        """Return as much of an eraser's motion as its share of the norm allows."""
        assert self.sides_ is not None
        change = self.sides_.moved(updates, read, motion) - updates
        length = torch.linalg.vector_norm(change, dim=1)
        allowed = self.done_.share * read.norms
        return motion * torch.where(length > allowed, allowed / length.clamp_min(1e-30), 1.0)[:, None]

    def _generator(self, context: Context) -> torch.Generator:
        """Return the device's randomness: this message's own, or where it is sticky the same every time."""
        if not self.sticky:
            return context.generator
        if context.device not in self.secrets_:
            self.secrets_[context.device] = int(torch.randint(2**62, (1,), generator=context.generator))
        return torch.Generator().manual_seed(self.secrets_[context.device])
