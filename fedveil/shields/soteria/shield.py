"""Soteria (Sun et al. 2021): leave those features out of one layer's gradient that tell most about the input."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fedveil.core.errors import InputError, nearest
from fedveil.shields.message import Context, Kind, Message, Samples
from fedveil.shields.records import alike, check_made, samples_of, step_of
from fedveil.shields.shield import Shield, ShieldError
from fedveil.shields.soteria.jacobian_norms import estimated_norms, exact_norms, signs
from fedveil.updates.segments import Segment, checked


class Soteria(Shield):
    """Set the gradient's columns of the ⌈p·l⌉ features with the largest |rᵢ| / ‖∂rᵢ/∂x‖₂ to 0, record by record.

    Symbols: r ∈ Rˡ what the defended fully connected layer reads, x the record, p the share; a feature is live where
    rᵢ ≠ 0. The layer's weights W (o × l) have the gradient δ rᵀ, from whose ratios r is read off: that is where inputs
    leak from, and column i is rᵢ δ. So W's columns are masked, as if r had been perturbed there (Sun et al.: for
    ‖rᵢ (∂rᵢ/∂x)⁻¹‖ they take this ratio); biases and all other layers leave as they are. A feature that is 0, a dead
    ReLU's, has a column of zeros and nothing to hide: it is never chosen. One that is not 0 and does not depend on x
    at all has the ratio ∞ and comes first. Of equal ones the earlier is chosen. Where no more than p·l are live, all
    are left out and no norm is needed: with half of the ReLUs dead that is so from p = 0.5 on.
    Sun et al. and their published code take the last fully connected layer ("last"); RecUP-FL §3.1 does not name one.
    Their code chooses by the sum over a batch; here every record has its own mask, and a device sends the mean of its
    records' masked gradients. After several steps a device with one record sends its update with that record's mask at
    the start weights; with several records and steps nothing is sent, as no record's share can be told.
    Guarantee: none. Zeros show which features were chosen, and all other tensors are sent exactly.

    Attributes:
        p: the share of the defended layer's features that is left out, in [0, 1].
        layer: the layer that reads r: "last" or "first" fully connected one, or its name in the network.
        probes: estimate norms from so many random directions (relative error about 1/√(2·probes)); null (None): exact.
    """

    name = "soteria"
    acts_on = frozenset({Kind.UPDATE})
    by_record = True

    def __init__(self, p: float = 0.8, layer: str = "last", probes: int | None = None) -> None:
        if isinstance(p, bool) or not 0 <= p <= 1:
            raise InputError(f"soteria: p is the share of features that is left out, in [0, 1]; got {p}")
        if probes is not None and (isinstance(probes, bool) or probes < 1 or int(probes) != probes):
            raise InputError(f"soteria: probes must be a whole number from 1 on, or none for exact norms; got {probes}")
        self.p, self.layer, self.probes = p, layer, probes

    def change(self, message: Message, context: Context) -> Message:
        """Shield one device's update."""
        rows = message.values.flatten(1)
        if len(rows) != 1:
            raise ShieldError(f"soteria: {len(rows)} updates with the records of one; nothing is sent")
        return message.with_values(self.change_all(rows, [context]).view(message.values.shape))

    def change_all(self, updates: Tensor, contexts: Sequence[Context]) -> Tensor:
        """Shield many devices' updates: all records go through a network that they share as one batch."""
        sent, groups = updates.clone(), []
        for places in alike(contexts):  # all checks before anything is drawn: who fails must not move others' dice
            own = [contexts[place] for place in places]
            samples = [samples_of(self.name, context) for context in own]
            checked(updates, own[0].segments)
            defended = Defended.of(samples[0], own[0].segments, self.layer)
            shares = [
                None if len(one.x) == 1 else defended.shares(one, defended.segment.of(updates[place : place + 1]))
                for place, one in zip(places, samples, strict=True)
            ]
            groups.append((places, own, samples, defended, shares))
        for places, own, samples, defended, shares in groups:
            r, norms = self._scored(defended, samples, own)
            kept = ~self.chosen(r, norms)
            start = 0
            for place, share, one in zip(places, shares, samples, strict=True):
                rows = slice(start, start := start + len(one.x))
                tensor = defended.segment.of(sent[place : place + 1])
                masked = tensor * kept[rows, None] if share is None else share.T @ (r[rows] * kept[rows])
                sent[place, defended.segment.start : defended.segment.stop] = masked.flatten()
        return sent

    def _scored(
        self, defended: Defended, samples: Sequence[Samples], contexts: Sequence[Context]
    ) -> tuple[Tensor, Tensor]:
        """Return r and the norms, (records, l); no norms where all live features are left out, or none is."""
        everyone = torch.cat([one.x for one in samples])
        with torch.no_grad():
            r = torch.cat([defended.features(part) for part in torch.split(everyone, _RECORDS)])
        norms, count = torch.zeros_like(r), self.count(r.shape[1])
        ranked = ((r != 0).sum(dim=1) > count) & (count > 0)
        owners = torch.repeat_interleave(torch.arange(len(samples)), torch.tensor([len(one.x) for one in samples]))
        concerned = sorted(set(owners[ranked.cpu()].tolist()))
        for start in range(0, len(concerned), _DEVICES):
            part = concerned[start : start + _DEVICES]
            rows = torch.isin(owners, torch.tensor(part)).to(r.device)
            if self.probes is None:
                norms[rows] = exact_norms(defended.features, everyone[rows])[1]
            else:
                probes = self._probes([contexts[place] for place in part])
                norms[rows] = estimated_norms(defended.features, everyone[rows], probes)[1]
        return r, norms

    def _probes(self, contexts: Sequence[Context]) -> Iterator[Tensor]:
        """Draw every device's directions from its own generator: they are the same in whichever batch it is."""
        for _ in range(self.probes or 0):
            yield torch.cat(
                [signs(one.samples.x.shape, one.generator, one.samples.x) for one in contexts if one.samples]
            )

    def count(self, features: int) -> int:
        """Return how many of so many features are left out, if so many are live."""
        return math.ceil(round(self.p * features, 9))

    def chosen(self, r: Tensor, norms: Tensor) -> Tensor:
        """Return which features of each record are left out: (n, l), the ⌈p·l⌉ largest ratios among live ones.

        >>> Soteria(p=0.5).chosen(torch.tensor([[1.0, 3.0, 0.0, -2.0]]), torch.tensor([[1.0, 2.0, 0.0, 1.0]])).tolist()
        [[False, True, False, True]]
        """
        live = r != 0
        ratios = torch.where(live, r.abs() / norms, -torch.inf)
        first = torch.sort(ratios, dim=1, descending=True, stable=True).indices[:, : self.count(r.shape[1])]
        return torch.zeros_like(live).scatter_(1, first, True) & live


_DEVICES = 16
"""How many devices' records are differentiated together."""

_RECORDS = 64
"""How many records go through the network together."""


@dataclass(frozen=True, eq=False)
class Defended:
    """The layer whose gradient is masked: where it is in the network, and where its weights are in an update."""

    network: nn.Module
    module: nn.Linear
    segment: Segment

    @classmethod
    def of(cls, samples: Samples, segments: Sequence[Segment], layer: str) -> Defended:
        """Find the layer by name, or the first or last fully connected one."""
        known = {name: one for name, one in samples.network.named_modules() if isinstance(one, nn.Linear)}
        if not known:
            raise ShieldError("soteria: the network has no fully connected layer to defend; nothing is sent")
        ends = {"last": list(known)[-1], "first": next(iter(known))}
        name = layer if layer in known else ends.get(layer)
        if name is None:
            raise ShieldError(
                f"soteria: no fully connected layer {layer!r}: {nearest(layer, [*ends, *known])}; nothing is sent"
            )
        tensor = f"{name}.weight" if name else "weight"
        for segment in segments:
            if segment.player == samples.player and segment.name == tensor:
                return cls(samples.network, known[name], segment)
        raise ShieldError(f"soteria: the update has no tensor {tensor!r} of {samples.player!r}; nothing is sent")

    def features(self, x: Tensor) -> Tensor:
        """Return r, what the layer reads for each record."""
        return self._passed(x)[0]

    def shares(self, samples: Samples, true: Tensor) -> Tensor:
        """Return step · δ/m of each of m records, (m, o), after checking that with r they add up to the true tensor."""
        step = step_of(Soteria.name, samples)
        with torch.enable_grad():
            r, made, outputs = self._passed(samples.x)
            (slopes,) = torch.autograd.grad(samples.loss(outputs, samples.y).sum(), made)
        found = slopes * (step / len(samples.x))
        check_made(Soteria.name, true, (found.T @ r.detach())[None], self.module.weight.detach())
        return found

    def _passed(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Run the network; return what the layer read and made of it, and the network's outputs."""
        met: list[tuple[Tensor, Tensor]] = []
        hook = self.module.register_forward_hook(lambda _, given, made: met.append((given[0], made)))
        try:
            outputs = self.network(x)
        finally:
            hook.remove()
        if len(met) != 1 or met[0][0].ndim != 2:
            raise ShieldError(
                f"soteria: layer {self.segment.name!r} reads {len(met)} times, and must read one row of features per "
                "record, once; nothing is sent"
            )
        return *met[0], outputs
