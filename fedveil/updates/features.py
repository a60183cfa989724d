"""Features of updates: what attackers compute from them, and shields must expect. All are differentiable."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from fedveil.core.errors import InputError, nearest
from fedveil.core.randomness import torch_generator
from fedveil.updates.segments import Segment, checked

LARGE = 4096
"""A layer with more weights than this, after pooling over a convolution's window, is also pooled over its outputs."""

DIRECTIONS = 256
"""How many random directions an update is projected onto."""


def features(updates: Tensor, segments: Sequence[Segment], how: str = "layers") -> Tensor:
    """Return (n, f) features of n updates.

    | how | features |
    |---|---|
    | whole | the update itself |
    | direction | the update scaled to norm 1: how far a device moves depends on its number of records |
    | max | magnitudes, max-pooled (Melis et al. 2019) over space and over a large layer's outputs; no biases |
    | means | magnitudes, pooled in the same way by means, so that every entry counts |
    | recovered | each layer's input, from its gradients: exact for one record and one step; noise is averaged out |
    | biases | the trained tensors with one axis: biases and the scales of norms, which "max" skips |
    | last | the last trained tensors of each player |
    | layers | of each tensor: mean, deviation, mean magnitude, largest magnitude, norm, share above 0 |
    | projection | 256 random directions, the same for all updates |
    """
    checked(updates, segments)
    if how not in FEATURES:
        raise InputError(f"updates: no features {how!r}: {nearest(how, FEATURES)}")
    values = FEATURES[how](updates, segments)
    if not values.shape[1]:
        raise InputError(f"updates: these players have no tensors that {how!r} reads; choose others")
    return values


def max_pooled(updates: Tensor, segments: Sequence[Segment], large: int = LARGE) -> Tensor:
    """Pool magnitudes by maxima; the gradient reaches only the largest entries."""
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
            values = pool(values.flatten(3), 3)  # over a convolution's window
        if values.shape[1:].numel() > large:
            values = pool(values, 1)  # one feature per input
        parts.append(values.flatten(1))
    return torch.cat(parts, dim=1)


def recovered_inputs(updates: Tensor, segments: Sequence[Segment]) -> Tensor:
    """Return each layer's input x̂, recovered from the gradients G of its weights and b of its biases; 0 if b is 0.

    With one record, (G, b) = δ ⊗ (x, 1) and x̂ = x, whatever the record's loss. Starting from δ = b, two power steps
    approach the nearest matrix of rank one. If noise is independent between entries, this averages it over all outputs
    and inputs: an attacker who knows the layer does not face all of the noise. A convolution gives the mean of its
    windows.
    """
    parts = [updates[:, :0]]
    trained = {(segment.player, segment.name): segment for segment in _trained(segments)}
    for (player, name), weights in trained.items():
        bias = trained.get((player, f"{name.removesuffix('weight')}bias"))
        if not name.endswith("weight") or len(weights.shape) < 2 or bias is None:
            continue
        slopes = bias.of(updates)
        joined = torch.cat([weights.of(updates).flatten(2), slopes.unsqueeze(2)], dim=2)
        left = slopes
        for _ in range(2):
            right = torch.einsum("no,noi->ni", _unit(left), joined)
            left = torch.einsum("ni,noi->no", _unit(right), joined)
        row = torch.einsum("no,noi->ni", _unit(left), joined)
        scale = row[:, -1:]
        parts.append(torch.where(scale != 0, row[:, :-1] / torch.where(scale != 0, scale, 1.0), 0.0))
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
    """Return each player's last weights, with the biases after them if there are any."""
    last: list[Segment] = []
    for player in dict.fromkeys(segment.player for segment in segments):
        trained = [segment for segment in _trained(segments) if segment.player == player]
        weights = [index for index, segment in enumerate(trained) if len(segment.shape) > 1]
        last += trained[weights[-1] :] if weights else trained[-1:]
    return _joined(updates, last)


def projection(updates: Tensor, segments: Sequence[Segment]) -> Tensor:
    """Project onto random Gaussian directions; distances are kept to about 1/√256 (Johnson, Lindenstrauss 1984)."""
    generator = torch_generator(0, "directions of updates")
    projected = updates.new_zeros(len(updates), DIRECTIONS)
    for part in torch.split(torch.arange(updates.shape[1]), 4096):  # so that not all directions are in memory at once
        directions = torch.randn(len(part), DIRECTIONS, generator=generator, dtype=torch.float64)
        projected = projected + updates[:, part] @ directions.to(updates) / DIRECTIONS**0.5
    return projected


def direction(updates: Tensor, segments: Sequence[Segment]) -> Tensor:
    """Scale every update to norm 1; an update of 0 stays 0."""
    return _unit(updates)


def _whole(updates: Tensor, segments: Sequence[Segment]) -> Tensor:
    return updates


def _joined(updates: Tensor, segments: Sequence[Segment]) -> Tensor:
    return torch.cat([updates[:, :0], *(updates[:, segment.start : segment.stop] for segment in segments)], dim=1)


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
