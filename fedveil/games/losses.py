"""Losses per record, for one device (batch, …) and for stacked devices (devices, batch, …) alike.

The class or feature axis is the last; what comes back has one value per record. The engine averages
over each device's batch.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from fedveil.errors import InputError


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
