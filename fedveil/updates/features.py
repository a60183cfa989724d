"""Fewer numbers for an update: what attackers read, and shields must reckon with. Gradients flow back through all."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from fedveil.core.errors import InputError, nearest
from fedveil.core.randomness import torch_generator
from fedveil.updates.segments import Segment, checked

LARGE = 4096
"""A layer with more weights than this, a convolution's windows pooled, is pooled over its outputs, too."""

DIRECTIONS = 256
"""How many random directions an update is projected on."""


def features(updates: Tensor, segments: Sequence[Segment], how: str = "layers") -> Tensor:
    """Return (n, f) features of n updates.

    | how | what |
    |---|---|
    | whole | the update itself |
    | direction | the update scaled to norm 1: a device with more records moves farther, whoever they are of |
    | max | magnitudes, max-pooled (Melis et al. 2019): over space, over a large layer's outputs; no biases |
    | means | magnitudes, pooled in the same places by means: entries that are no maxima speak, too |
    | recovered | each layer's input as its gradients tell it: exact for one record and one step, noise averaged out |
    | biases | the trained tensors with one axis: biases and norms' scales, which "max" skips |
    | last | the last trained tensors of each player |
    | layers | of each tensor: mean, deviation, mean magnitude, largest magnitude, norm, share above 0 |
    | projection | 256 random directions, the same for all updates |
    """
    checked(updates, segments)
    if how not in FEATURES:
        raise InputError(f"updates: no features {how!r}: {nearest(how, FEATURES)}")
    found = FEATURES[how](updates, segments)
    if not found.shape[1]:
        raise InputError(f"updates: these players have no tensors that {how!r} reads; choose others")
    return found


def max_pooled(updates: Tensor, segments: Sequence[Segment], large: int = LARGE) -> Tensor:
    """Pool magnitudes by maxima; the gradient reaches the largest entries alone."""
    return _pooled(updates, segments, large, lambda values, dim: values.amax(dim=dim))


def mean_pooled(updates: Tensor, segments: Sequence[Segment], large: int = LARGE) -> Tensor:
    """Pool magnitudes by means; the gradient reaches every entry."""
    return _pooled(updates, segments, large, lambda values, dim: values.mean(dim=dim))


def _pooled(updates: Tensor, segments: Sequence[Segment], large: int, pool: Callable[[Tensor, int], Tensor]) -> Tensor:
    parts = [updates[:, :0]]
    for segment in _trained(segments):
        if len(segment.shape) < 2:
            continue
        values = segment.of(updates).abs()
        if values.ndim > 3:
            values = pool(values.flatten(3), 3)  # over a convolution's own small window
        if values.shape[1:].numel() > large:
            values = pool(values, 1)  # one feature per input
        parts.append(values.flatten(1))
    return torch.cat(parts, dim=1)


def recovered_inputs(updates: Tensor, segments: Sequence[Segment]) -> Tensor:
    """Return each layer's input x̂ as gradients G of its weights and b of its biases tell it; 0 where b is 0.

    With one record (G, b) = δ ⊗ (x, 1): x̂ = x, whatever the record's loss. From δ = b two power steps go towards the
    nearest matrix of rank one, in which noise that is independent between entries is averaged over all outputs and
    inputs: no attacker who knows the layer has to meet all of it. A convolution tells its windows' mean.
    """
    parts = [updates[:, :0]]
    own = {(segment.player, segment.name): segment for segment in _trained(segments)}
    for (player, name), weights in own.items():
        bias = own.get((player, f"{name.removesuffix('weight')}bias"))
        if not name.endswith("weight") or len(weights.shape) < 2 or bias is None:
            continue
        slopes = bias.of(updates)
        joined = torch.cat([weights.of(updates).flatten(2), slopes.unsqueeze(2)], dim=2)
        left = slopes
        for _ in range(2):
            right = torch.einsum("no,noi->ni", _unit(left), joined)
            left = torch.einsum("ni,noi->no", _unit(right), joined)
        told = torch.einsum("no,noi->ni", _unit(left), joined)
        size = told[:, -1:]
        parts.append(torch.where(size != 0, told[:, :-1] / torch.where(size != 0, size, 1.0), 0.0))
    return torch.cat(parts, dim=1)


def _unit(rows: Tensor) -> Tensor:
    size: Tensor = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    return rows / size.clamp_min(1e-30)


def layer_statistics(updates: Tensor, segments: Sequence[Segment]) -> Tensor:
    """Summarise each tensor by six numbers."""
    parts = [updates[:, :0]]
    for segment in segments:
        values = segment.of(updates).flatten(1)
        size = values.abs()
        spread = (values - values.mean(dim=1, keepdim=True)).pow(2).mean(dim=1).clamp_min(1e-30).sqrt()
        share = (values > 0).to(values.dtype).mean(dim=1)
        norm = values.pow(2).sum(dim=1).clamp_min(1e-30).sqrt()
        parts.append(torch.stack([values.mean(dim=1), spread, size.mean(dim=1), size.amax(dim=1), norm, share], dim=1))
    return torch.cat(parts, dim=1)


def biases(updates: Tensor, segments: Sequence[Segment]) -> Tensor:
    """Return all trained tensors with one axis."""
    return _joined(updates, [segment for segment in _trained(segments) if len(segment.shape) == 1])


def last_layers(updates: Tensor, segments: Sequence[Segment]) -> Tensor:
    """Return each player's last weights, and the biases behind them where there are some."""
    kept: list[Segment] = []
    for player in dict.fromkeys(segment.player for segment in segments):
        own = [segment for segment in _trained(segments) if segment.player == player]
        wide = [place for place, segment in enumerate(own) if len(segment.shape) > 1]
        kept += own[wide[-1] :] if wide else own[-1:]
    return _joined(updates, kept)


def projection(updates: Tensor, segments: Sequence[Segment]) -> Tensor:
    """Project on random Gaussian directions, which keep distances to about 1/√256 (Johnson, Lindenstrauss 1984)."""
    generator = torch_generator(0, "directions of updates")
    found = updates.new_zeros(len(updates), DIRECTIONS)
    for part in torch.split(torch.arange(updates.shape[1]), 4096):  # never all directions in memory at once
        directions = torch.randn(len(part), DIRECTIONS, generator=generator, dtype=torch.float64)
        found = found + updates[:, part] @ directions.to(updates) / DIRECTIONS**0.5
    return found


def direction(updates: Tensor, segments: Sequence[Segment]) -> Tensor:
    """Scale every update to norm 1; one that is 0 stays."""
    return _unit(updates)


def _whole(updates: Tensor, segments: Sequence[Segment]) -> Tensor:
    return updates


def _joined(updates: Tensor, segments: Sequence[Segment]) -> Tensor:
    return torch.cat([updates[:, :0], *(updates[:, own.start : own.stop] for own in segments)], dim=1)


def _trained(segments: Sequence[Segment]) -> list[Segment]:
    return [segment for segment in segments if not segment.statistic]


FEATURES: dict[str, Callable[[Tensor, Sequence[Segment]], Tensor]] = {
    "whole": _whole,
    "direction": direction,
    "max": max_pooled,
    "means": mean_pooled,
    "recovered": recovered_inputs,
    "biases": biases,
    "last": last_layers,
    "layers": layer_statistics,
    "projection": projection,
}
