"""How well candidates' gradients match what was seen: many candidates at once, differentiably."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import torch
from torch import Tensor, nn

from fedveil.updates.gradients import LossOf, gradients_one_by_one, is_known, layer_gradients

Over = Literal["all", "tensor"]
"""Cosine over all tensors together (Geiping et al.), or the mean of each tensor's own."""


def mismatch(model: nn.Module, loss: LossOf, x: Tensor, y: Tensor, seen: Tensor, over: Over = "all") -> Tensor:
    """Return 1 − cos between each record's gradient and the row that was seen, (n,); differentiable in x.

    Symbols: g(x) = ∇_w ℓ(x, y; w), t what was seen; cos = ⟨g, t⟩ / (‖g‖‖t‖). Over "tensor" each weight and bias has
    a cosine of its own, and tensors of which nothing was seen do not count: the last layer's gradient is the longest
    by far where activations are sigmoids, and over all together it drowns what early layers tell.
    """
    dots, squares, lengths = (
        torch.stack(parts, dim=1) for parts in zip(*_by_tensor(model, loss, x, y, seen), strict=True)
    )
    tiny = torch.finfo(seen.dtype).tiny
    if over == "all":
        dots, squares, lengths = (part.sum(dim=1, keepdim=True) for part in (dots, squares, lengths))
    told = lengths > 0
    scale = torch.where(told & (squares > 0), squares * lengths, 1.0).clamp_min(tiny).sqrt()
    each = torch.where(told, 1 - dots / scale, 0.0)
    return each.sum(dim=1) / told.sum(dim=1).clamp_min(1)


def _by_tensor(
    model: nn.Module, loss: LossOf, x: Tensor, y: Tensor, seen: Tensor
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Yield ⟨g, t⟩, ‖g‖² and ‖t‖² of each tensor.

    Of a fully connected layer with inputs a and slopes δ the gradient δ ⊗ a is never written down: ⟨δ ⊗ a, T⟩ = δᵀTa
    and ‖δ ⊗ a‖ = ‖δ‖‖a‖.
    """
    places = parameter_places(model)
    owners = [layer for layer in model.modules() if any(True for _ in layer.parameters(recurse=False))]
    if not all(is_known(layer) for layer in owners):
        rows = gradients_one_by_one(model, loss, x, y)
        for place in places.values():
            yield _products(rows[:, place], seen[:, place])
        return
    inputs: dict[nn.Module, Tensor] = {}
    outputs: dict[nn.Module, Tensor] = {}

    def keep(layer: nn.Module, given: tuple[Tensor, ...], made: Tensor) -> None:
        inputs[layer], outputs[layer] = given[0], made

    hooks = [layer.register_forward_hook(keep) for layer in owners]
    try:
        total = loss(model(x), y).sum()
    finally:
        for hook in hooks:
            hook.remove()
    slopes = torch.autograd.grad(total, [outputs[layer] for layer in owners], create_graph=True)
    for layer, slope in zip(owners, slopes, strict=True):
        a = inputs[layer]
        if not isinstance(layer, nn.Linear):
            for parameter, rows in layer_gradients(layer, a, slope, 1):
                yield _products(rows.flatten(1), seen[:, places[id(parameter)]])
            continue
        flat = seen[:, places[id(layer.weight)]]
        mapped = torch.bmm(flat.view(len(x), *layer.weight.shape), a[:, :, None])[:, :, 0]
        square = slope.square().sum(dim=1)
        yield (slope * mapped).sum(dim=1), square * a.square().sum(dim=1), flat.square().sum(dim=1)
        if layer.bias is not None:
            yield _products(slope, seen[:, places[id(layer.bias)]])


def _products(rows: Tensor, seen: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return (rows * seen).sum(dim=1), rows.square().sum(dim=1), seen.square().sum(dim=1)


def parameter_places(model: nn.Module) -> dict[int, slice]:
    """Return where each parameter lies in a flat row."""
    found: dict[int, slice] = {}
    start = 0
    for parameter in model.parameters():
        found[id(parameter)] = slice(start, start + parameter.numel())
        start += parameter.numel()
    return found


def total_variation(x: Tensor, smooth: float = 0.0) -> Tensor:
    """Return the mean |difference| of neighbours down and across, (n,); √(d² + smooth²) makes it differentiable.

    >>> total_variation(torch.tensor([[[[0.0, 1.0], [0.0, 1.0]]]])).item()
    1.0
    """
    found = x.new_zeros(len(x))
    for difference in (x[:, :, 1:] - x[:, :, :-1], x[:, :, :, 1:] - x[:, :, :, :-1]):
        size = (difference.square() + smooth**2).sqrt() if smooth else difference.abs()
        found = found + (size.flatten(1).mean(dim=1) if difference.numel() else 0.0)
    return found
