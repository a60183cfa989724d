"""How well the gradients of candidate inputs match observed ones: many candidates at once, differentiably."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import torch
from torch import Tensor, nn

from fedveil.updates.gradients import (
    LossOf,
    gradients_one_by_one,
    is_explicit,
    layer_gradients,
    layer_slopes,
    network_segments,
)

Over = Literal["all", "tensor"]
"""The cosine over all tensors together (Geiping et al.), or the mean of the cosines of each tensor."""


def mismatch(model: nn.Module, loss: LossOf, x: Tensor, y: Tensor, seen: Tensor, over: Over = "all") -> Tensor:
    """Return 1 − cos between each record's gradient and the observed one, (n,); differentiable in x.

    Symbols: g(x) = ∇_w ℓ(x, y; w), t the observed gradient; cos = ⟨g, t⟩ / (‖g‖‖t‖). Over "tensor", each weight and
    bias has its own cosine, and tensors whose observed gradient is 0 do not count: with sigmoids the gradient of the
    last layer is by far the longest, and over "all" it drowns out the information of early layers.
    """
    dots, squares, lengths = (
        torch.stack(parts, dim=1) for parts in zip(*_by_tensor(model, loss, x, y, seen), strict=True)
    )
    tiny = torch.finfo(seen.dtype).tiny
    if over == "all":
        dots, squares, lengths = (part.sum(dim=1, keepdim=True) for part in (dots, squares, lengths))
    observed = lengths > 0
    scale = torch.where(observed & (squares > 0), squares * lengths, 1.0).clamp_min(tiny).sqrt()
    each = torch.where(observed, 1 - dots / scale, 0.0)
    return each.sum(dim=1) / observed.sum(dim=1).clamp_min(1)


def _by_tensor(
    model: nn.Module, loss: LossOf, x: Tensor, y: Tensor, seen: Tensor
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Yield ⟨g, t⟩, ‖g‖² and ‖t‖² of each tensor.

    The gradient δ ⊗ a of a fully connected layer with inputs a and slopes δ is never formed: ⟨δ ⊗ a, T⟩ = δᵀTa and
    ‖δ ⊗ a‖ = ‖δ‖‖a‖.
    """
    slices = parameter_slices(model)
    if not is_explicit(model):
        rows = gradients_one_by_one(model, loss, x, y)
        for columns in slices.values():
            yield _products(rows[:, columns], seen[:, columns])
        return
    for layer, a, slope in layer_slopes(model, loss, x, y, create_graph=True):
        if not isinstance(layer, nn.Linear):
            for parameter, rows in layer_gradients(layer, a, slope, 1):
                yield _products(rows.flatten(1), seen[:, slices[id(parameter)]])
            continue
        flat = seen[:, slices[id(layer.weight)]]
        mapped = torch.bmm(flat.view(len(x), *layer.weight.shape), a[:, :, None])[:, :, 0]
        square = slope.square().sum(dim=1)
        yield (slope * mapped).sum(dim=1), square * a.square().sum(dim=1), flat.square().sum(dim=1)
        if layer.bias is not None:
            yield _products(slope, seen[:, slices[id(layer.bias)]])


def _products(rows: Tensor, seen: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return (rows * seen).sum(dim=1), rows.square().sum(dim=1), seen.square().sum(dim=1)


def parameter_slices(model: nn.Module) -> dict[int, slice]:
    """Return the columns of each parameter, by its id, in a row of gradients."""
    segments = zip(model.parameters(), network_segments(model), strict=True)
    return {id(parameter): slice(segment.start, segment.stop) for parameter, segment in segments}


def total_variation(x: Tensor, smooth: float = 0.0) -> Tensor:
    """Return the mean |d| over differences d of neighbours, (n,); with `smooth`, the mean of √(d² + smooth²).

    >>> total_variation(torch.tensor([[[[0.0, 1.0], [0.0, 1.0]]]])).item()
    1.0
    """
    total = x.new_zeros(len(x))
    for difference in (x[:, :, 1:] - x[:, :, :-1], x[:, :, :, 1:] - x[:, :, :, :-1]):
        size = (difference.square() + smooth**2).sqrt() if smooth else difference.abs()
        total = total + (size.flatten(1).mean(dim=1) if difference.numel() else 0.0)
    return total
