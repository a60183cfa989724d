"""Training a small network on vectors, for attackers (with evenly weighted classes) and for task heads (without)."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from fedveil.core.arrays import FloatArray, FloatingArray, IntArray
from fedveil.core.models import mlp, pick_device
from fedveil.core.randomness import torch_generator
from fedveil.core.threads import single_thread


@dataclass(frozen=True)
class Recipe:
    """How long and how fast to learn; the epoch with the lowest validation loss is kept.

    Attributes:
        hidden: sizes of the hidden layers.
        learning_rate: Adam's.
        most_epochs: passes over the training vectors, at most.
        patience: epochs without a lower validation loss after which training stops.
        batch: vectors in a step, at most.
        weight_decay: Adam's.
        fused: let Adam update all weights in one pass: faster with millions of weights, but rounded differently.
    """

    hidden: tuple[int, ...] = (64,)
    learning_rate: float = 2e-3
    most_epochs: int = 40
    patience: int = 5
    batch: int = 256
    weight_decay: float = 1e-5
    fused: bool = False


def fit_network(
    train: tuple[FloatingArray, IntArray],
    validation: tuple[FloatingArray, IntArray],
    classes: int,
    recipe: Recipe,
    *,
    even: bool,
    seed: int,
    device: str = "auto",
) -> nn.Module:
    """Train by Adam on the cross-entropy, class-weighted if `even`, until the validation loss stalls."""
    with single_thread():
        return _fit(train, validation, classes, recipe, even, torch_generator(seed, "network"), pick_device(device))


def _fit(
    train: tuple[FloatingArray, IntArray],
    validation: tuple[FloatingArray, IntArray],
    classes: int,
    recipe: Recipe,
    even: bool,
    generator: torch.Generator,
    device: torch.device,
) -> nn.Module:
    model = mlp([train[0].shape[1], *recipe.hidden, classes], generator).to(device)
    (x, u), (x_validation, u_validation) = (
        (torch.as_tensor(vectors, dtype=torch.float32, device=device), torch.as_tensor(codes, device=device))
        for vectors, codes in (train, validation)
    )
    counts = torch.bincount(u, minlength=classes).float().clamp_min(1)
    loss_of = nn.CrossEntropyLoss(weight=len(u) / (classes * counts) if even else None)
    return descend(model, (x, u), (x_validation, u_validation), loss_of, recipe, recipe.most_epochs, generator)


def descend(
    model: nn.Module,
    train: tuple[torch.Tensor, torch.Tensor],
    validation: tuple[torch.Tensor, torch.Tensor],
    loss_of: nn.Module,
    recipe: Recipe,
    most_epochs: int,
    generator: torch.Generator,
) -> nn.Module:
    """Train a network by Adam; the epoch with the lowest validation loss is kept."""
    x, targets = train
    optimiser = torch.optim.Adam(
        model.parameters(), recipe.learning_rate, weight_decay=recipe.weight_decay, fused=recipe.fused or None
    )
    batch = max(16, min(recipe.batch, len(x) // 20))  # about twenty steps per epoch or more, even with few vectors
    best_loss, epochs_since_best, best_weights = float("inf"), 0, copy.deepcopy(model.state_dict())
    for _ in range(most_epochs):
        model.train()
        for rows in torch.split(torch.randperm(len(x), generator=generator).to(x.device), batch):
            optimiser.zero_grad()
            loss_of(model(x[rows]), targets[rows]).backward()
            optimiser.step()
        model.eval()
        with torch.no_grad():
            loss = float(loss_of(model(validation[0]), validation[1]))
        epochs_since_best += 1
        if loss < best_loss - 1e-4:
            best_loss, epochs_since_best, best_weights = loss, 0, copy.deepcopy(model.state_dict())
        if epochs_since_best >= recipe.patience:
            break
    model.load_state_dict(best_weights)
    return model.eval()


def log_posterior(model: nn.Module, vectors: FloatingArray) -> FloatArray:
    """Return a network's log-probabilities for vectors."""
    device = next(model.parameters()).device
    with single_thread(), torch.no_grad():
        parts = (vectors[start : start + 8192] for start in range(0, max(1, len(vectors)), 8192))
        logits = torch.cat([model(torch.as_tensor(part, dtype=torch.float32, device=device)) for part in parts])
    return logits.log_softmax(dim=1).cpu().numpy().astype(np.float64)
