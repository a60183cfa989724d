"""Losses per record, for one device (batch, …) and for stacked devices (devices, batch, …) alike.

The last axis holds classes or features; the result has one value per record. The engine averages over each device's
batch.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from fedveil.core.errors import InputError


def cross_entropy(logits: Tensor, codes: Tensor) -> Tensor:
    """Return −log softmax(logits)[code] in nats; 0 for records without a label (code −1).

    >>> cross_entropy(torch.zeros(2, 3, 4), torch.tensor([[0, 1, -1], [2, 3, 0]])).shape
    torch.Size([2, 3])
    """
    if logits.shape[:-1] != codes.shape:
        raise InputError(
            f"cross-entropy: logits of shape {tuple(logits.shape)} for labels of shape {tuple(codes.shape)}"
        )
    flat = logits.reshape(-1, logits.shape[-1])
    loss = functional.cross_entropy(flat, codes.reshape(-1), reduction="none", ignore_index=-1)
    return loss.view(codes.shape)


def squared_error(output: Tensor, target: Tensor) -> Tensor:
    """Return the mean squared difference over the last axis: flatten images first."""
    if output.shape != target.shape:
        raise InputError(f"squared error: output of shape {tuple(output.shape)} for a target of {tuple(target.shape)}")
    return (output - target).square().mean(dim=-1)


def one_hot(codes: Tensor, classes: int, like: Tensor) -> Tensor:
    """Return codes as one-hot rows of the type of `like`; a missing label (−1) becomes zeros."""
    rows = torch.arange(classes, device=codes.device)
    return (codes.unsqueeze(-1) == rows).to(like.dtype)


def counting(chosen: Tensor, weights: Tensor | None) -> Tensor:
    """Return which of the chosen records are real, not padding."""
    return chosen if weights is None else chosen & (weights > 0)


def mean_over(loss: Tensor, counted: Tensor, weights: Tensor | None) -> Tensor:
    """Return a loss whose mean over a batch is the mean over the records that count; 0 if none does.

    >>> mean_over(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([True, False, True]), None).mean()
    tensor(2.)
    """
    size = float(loss.shape[-1]) if weights is None else weights.sum(dim=-1, keepdim=True)
    return loss * counted * size / counted.sum(dim=-1, keepdim=True).clamp_min(1).to(loss.dtype)


def mean_of(terms: list[Tensor]) -> Tensor:
    """Return the mean of several losses of the same records; a single loss is returned as it is."""
    return terms[0] if len(terms) == 1 else torch.stack(terms).mean(dim=0)
