"""Soteria (Sun et al. 2021): remove the features that reveal most about the input from one layer's gradient."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fedveil.core.errors import InputError, nearest
from fedveil.shields.message import Context, Kind, Message, Samples
from fedveil.shields.records import alike, check_recomputed, samples_of, step_of
from fedveil.shields.shield import Shield, ShieldError
from fedveil.updates.segments import Segment, checked

Features = Callable[[Tensor], Tensor]
"""Records (n, …) → features (n, l), each row a function of its record alone."""

_DEVICES = 16
"""How many devices' records are differentiated together."""

_RECORDS = 64
"""How many records go through the network together."""

_NUMBERS = 2**17
"""How many numbers of input gradients are held at once: twice as fast if they fit into a core's cache."""

_TOGETHER = 16
"""The least number of features that are differentiated in one pass; fewer would waste batched products."""


@dataclass(frozen=True, eq=False, repr=False)
class Soteria(Shield):
    """Set the gradient's columns of the ⌈p·l⌉ features with the largest |rᵢ| / ‖∂rᵢ/∂x‖₂ to 0, record by record.

    Symbols: r ∈ Rˡ what the defended fully connected layer reads, x the record, p the share; a feature is live if rᵢ ≠
    0. The layer's weights W (o × l) have the gradient δ rᵀ, and r can be read off from ratios of its entries, which is
    how inputs leak; column i is rᵢ δ. So W's columns are masked, as if r had been perturbed there (Sun et al. take this
    ratio for ‖rᵢ (∂rᵢ/∂x)⁻¹‖); biases and all other layers leave unchanged. A feature that is 0, such as a dead ReLU's,
    has a column of zeros and nothing to hide: it is never chosen. A live feature that does not depend on x at all has
    the ratio ∞ and comes first. Of equal features the earlier is chosen. If no more than p·l features are live, all are
    left out and no norm is needed: with half of the ReLUs dead this happens from p = 0.5 on.
    Sun et al. and their published code take the last fully connected layer ("last"); RecUP-FL §3.1 does not name one.
    Their code chooses by the sum over a batch; here every record has its own mask, and a device sends the mean of its
    records' masked gradients. After several steps a device with one record sends its update with that record's mask at
    the start weights; with several records and steps nothing is sent, since no record's share can be determined.
    Guarantee: none. Zeros show which features were chosen, and all other tensors are sent exactly.

    Attributes:
        p: the share of the defended layer's features that is left out, in [0, 1].
        layer: the layer that reads r: the "last" or "first" fully connected one, or its name in the network.
        probes: estimate norms from this many random directions (relative error about 1/√(2·probes)); null (None) for
            exact norms.
    """

    name = "soteria"
    acts_on = frozenset({Kind.UPDATE})
    by_record = True

    p: float = 0.8
    layer: str = "last"
    probes: int | None = None

    def __post_init__(self) -> None:
        p, probes = self.p, self.probes
        if isinstance(p, bool) or not 0 <= p <= 1:
            raise InputError(f"soteria: p is the share of features that is left out, in [0, 1]; got {p}")
        if probes is not None and (isinstance(probes, bool) or probes < 1 or int(probes) != probes):
            raise InputError(
                f"soteria: probes must be a whole number of at least 1, or none for exact norms; got {probes}"
            )

    def change(self, message: Message, context: Context) -> Message:
        """Shield one device's update."""
        rows = message.values.flatten(1)
        if len(rows) != 1:
            raise ShieldError(f"soteria: got {len(rows)} updates, but the records of one; nothing is sent")
        return message.with_values(self.change_all(rows, [context]).view(message.values.shape))

    def change_all(self, updates: Tensor, contexts: Sequence[Context]) -> Tensor:
        """Shield many devices' updates: all records go through a network that they share as one batch."""
        sent, groups = updates.clone(), []
        for indices in alike(contexts):  # check everything before drawing: a failure must not change others' draws
            group = [contexts[index] for index in indices]
            samples = [samples_of(self.name, context) for context in group]
            checked(updates, group[0].segments)
            defended = Defended.of(samples[0], group[0].segments, self.layer)
            shares = [
                None if len(sample.x) == 1 else defended.shares(sample, defended.segment.of(updates[index : index + 1]))
                for index, sample in zip(indices, samples, strict=True)
            ]
            groups.append((indices, group, samples, defended, shares))
        for indices, group, samples, defended, shares in groups:
            r, norms = self._scored(defended, samples, group)
            unmasked = ~self.chosen(r, norms)
            start = 0
            for index, share, sample in zip(indices, shares, samples, strict=True):
                rows = slice(start, start := start + len(sample.x))
                tensor = defended.segment.of(sent[index : index + 1])
                masked = tensor * unmasked[rows, None] if share is None else share.T @ (r[rows] * unmasked[rows])
                sent[index, defended.segment.start : defended.segment.stop] = masked.flatten()
        return sent

    def _scored(
        self, defended: Defended, samples: Sequence[Samples], contexts: Sequence[Context]
    ) -> tuple[Tensor, Tensor]:
        """Return r and the norms, (records, l); norms are 0 for devices that leave out all live features, or none."""
        records = torch.cat([sample.x for sample in samples])
        with torch.no_grad():
            r = torch.cat([defended.features(part) for part in torch.split(records, _RECORDS)])
        norms, count = torch.zeros_like(r), self.count(r.shape[1])
        ranked = ((r != 0).sum(dim=1) > count) & (count > 0)
        owners = torch.repeat_interleave(
            torch.arange(len(samples)), torch.tensor([len(sample.x) for sample in samples])
        )
        devices = sorted(set(owners[ranked.cpu()].tolist()))
        for start in range(0, len(devices), _DEVICES):
            part = devices[start : start + _DEVICES]
            rows = torch.isin(owners, torch.tensor(part)).to(r.device)
            if self.probes is None:
                norms[rows] = exact_norms(defended.features, records[rows])[1]
            else:
                probes = self._probes([contexts[index] for index in part])
                norms[rows] = estimated_norms(defended.features, records[rows], probes)[1]
        return r, norms

    def _probes(self, contexts: Sequence[Context]) -> Iterator[Tensor]:
        """Draw every device's directions from its own generator, so that they do not depend on the batch."""
        for _ in range(self.probes or 0):
            yield torch.cat(
                [
                    signs(context.samples.x.shape, context.generator, context.samples.x)
                    for context in contexts
                    if context.samples
                ]
            )

    def count(self, features: int) -> int:
        """Return how many of this many features are left out, if that many are live."""
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


@dataclass(frozen=True, eq=False)
class Defended:
    """The layer whose gradient is masked: its module in the network, and its weights' segment in an update."""

    network: nn.Module
    module: nn.Linear
    segment: Segment

    @classmethod
    def of(cls, samples: Samples, segments: Sequence[Segment], layer: str) -> Defended:
        """Find the layer by name, or the first or last fully connected one."""
        linear = {name: module for name, module in samples.network.named_modules() if isinstance(module, nn.Linear)}
        if not linear:
            raise ShieldError("soteria: the network has no fully connected layer to defend; nothing is sent")
        ends = {"last": list(linear)[-1], "first": next(iter(linear))}
        name = layer if layer in linear else ends.get(layer)
        if name is None:
            raise ShieldError(
                f"soteria: no fully connected layer {layer!r}: {nearest(layer, [*ends, *linear])}; nothing is sent"
            )
        tensor = f"{name}.weight" if name else "weight"
        for segment in segments:
            if segment.player == samples.player and segment.name == tensor:
                return cls(samples.network, linear[name], segment)
        raise ShieldError(f"soteria: the update has no tensor {tensor!r} of {samples.player!r}; nothing is sent")

    def features(self, x: Tensor) -> Tensor:
        """Return r, what the layer reads for each record."""
        return self._passed(x)[0]

    def shares(self, samples: Samples, true: Tensor) -> Tensor:
        """Return step · δ/m of each of m records, (m, o), after checking that with r they add up to the true tensor."""
        step = step_of(Soteria.name, samples)
        with torch.enable_grad():
            r, layer_outputs, outputs = self._passed(samples.x)
            (slopes,) = torch.autograd.grad(samples.loss(outputs, samples.y).sum(), layer_outputs)
        shares = slopes * (step / len(samples.x))
        check_recomputed(Soteria.name, true, (shares.T @ r.detach())[None], self.module.weight.detach())
        return shares

    def _passed(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Run the network; return the layer's inputs and outputs, and the network's outputs."""
        calls: list[tuple[Tensor, Tensor]] = []
        hook = self.module.register_forward_hook(lambda _, inputs, output: calls.append((inputs[0], output)))
        try:
            outputs = self.network(x)
        finally:
            hook.remove()
        if len(calls) != 1 or calls[0][0].ndim != 2:
            raise ShieldError(
                f"soteria: layer {self.segment.name!r} was called {len(calls)} times; it must be called once, with "
                "one row of features per record; nothing is sent"
            )
        return *calls[0], outputs


def exact_norms(features: Features, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the features r and the norms ‖∂rᵢ/∂x‖₂, both (n, l); 0 if a feature is 0.

    Cost: one forward pass, then batched backward passes over the live features alone. Every record has a different
    list of them, so a pass takes the next few of every record's list. Parameters get no gradients.
    """
    each = max(1, x[:1].numel())
    parts = [_exact(features, part, each) for part in torch.split(x, max(1, _NUMBERS // (each * _TOGETHER)))]
    return torch.cat([r for r, _ in parts]), torch.cat([norms for _, norms in parts])


def _exact(features: Features, x: Tensor, each: int) -> tuple[Tensor, Tensor]:
    with torch.enable_grad():
        inputs = x.detach().clone().requires_grad_()
        r = features(inputs)
    live = r.detach() != 0
    most = int(live.sum(dim=1).max()) if live.numel() else 0
    listed = torch.sort((~live).to(torch.uint8), dim=1, stable=True).indices[:, :most]
    norms = torch.zeros_like(r, requires_grad=False)
    for part in torch.split(listed, max(1, _NUMBERS // (each * len(x))), dim=1) if most else ():
        chosen = torch.zeros(part.shape[1], *r.shape, dtype=r.dtype, device=r.device)
        chosen.scatter_(2, part.T[:, :, None], 1.0)
        (slopes,) = torch.autograd.grad(
            r, inputs, chosen, retain_graph=True, is_grads_batched=True, allow_unused=True, materialize_grads=True
        )
        norms.scatter_(1, part, torch.linalg.vector_norm(slopes.flatten(2), dim=2).T)
    return r.detach(), norms * live


def estimated_norms(features: Features, x: Tensor, probes: Iterable[Tensor]) -> tuple[Tensor, Tensor]:
    """Return the features and estimates of the norms, from random directions v with E vvᵀ = I, each of x's shape.

    E (∂rᵢ/∂x · v)² = ‖∂rᵢ/∂x‖², so the mean over k directions is an unbiased estimate of the square, with a relative
    standard deviation of at most √(2/k) (Hutchinson 1990); that of the norm is about 1/√(2k). One forward-mode pass
    gives all features at once, so that wide layers cost no more than narrow ones.
    """
    total, count = torch.zeros(()), 0
    with torch.no_grad(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="`torch.jit", category=DeprecationWarning)  # torch itself uses it
        for probe in probes:
            r, slope = torch.func.jvp(features, (x,), (probe,))[:2]
            total, count = slope.square() + total, count + 1
    return r, (total / count).sqrt() * (r != 0)


def signs(shape: torch.Size, generator: torch.Generator, like: Tensor) -> Tensor:
    """Draw ±1 for each number: of all directions with E vvᵀ = I, these have the least variance."""
    drawn = torch.randint(2, shape, generator=generator, device=generator.device)
    return drawn.to(like).mul_(2).sub_(1)
