"""Multi-layer perceptrons of two sizes."""

from __future__ import annotations

import copy

import numpy as np
import torch
from torch import nn

from fedveil.attacks.attack import Attack, FloatArray, Labelled
from fedveil.models import mlp, pick_device
from fedveil.randomness import torch_generator


class SmallMLP(Attack):
    """One hidden layer of 64 units; Adam on the class-weighted cross-entropy, stopped on validation."""

    name = "mlp-small"
    hidden: tuple[int, ...] = (64,)
    most_epochs = 40
    patience = 5
    batch = 256
    learning_rate = 2e-3

    def fit(self, auxiliary: Labelled, validation: Labelled, classes: int) -> None:
        """Train until the validation loss has not improved for `patience` epochs; keep the best epoch."""
        device = pick_device(self.device)
        generator = torch_generator(self.seed, self.name)
        model = mlp([auxiliary.vectors.shape[1], *self.hidden, classes], generator).to(device)
        x, u = _tensors(auxiliary, device)
        x_validation, u_validation = _tensors(validation, device)
        weights = len(u) / (classes * torch.bincount(u, minlength=classes).float())
        loss_of = nn.CrossEntropyLoss(weight=weights)
        optimiser = torch.optim.Adam(model.parameters(), self.learning_rate, weight_decay=1e-5)
        # Small auxiliary sets still deserve some twenty steps an epoch.
        batch = max(16, min(self.batch, len(u) // 20))
        best, since, kept = float("inf"), 0, copy.deepcopy(model.state_dict())
        for _ in range(self.most_epochs):
            model.train()
            for rows in torch.split(torch.randperm(len(u), generator=generator).to(device), batch):
                optimiser.zero_grad()
                loss_of(model(x[rows]), u[rows]).backward()
                optimiser.step()
            model.eval()
            with torch.no_grad():
                loss = float(loss_of(model(x_validation), u_validation))
            since += 1
            if loss < best - 1e-4:
                best, since, kept = loss, 0, copy.deepcopy(model.state_dict())
            if since >= self.patience:
                break
        model.load_state_dict(kept)
        self.model_, self.device_ = model.eval(), device

    def scores(self, vectors: FloatArray) -> FloatArray:
        """Return log-probabilities."""
        with torch.no_grad():
            x = torch.as_tensor(vectors, dtype=torch.float32, device=self.device_)
            logits = torch.cat([self.model_(part) for part in torch.split(x, 8192)])
        return logits.log_softmax(dim=1).cpu().numpy().astype(np.float64)


class LargeMLP(SmallMLP):
    """Hidden layers of 256 and 128 units."""

    name = "mlp-large"
    hidden = (256, 128)
    learning_rate = 1e-3


def _tensors(data: Labelled, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    return (
        torch.as_tensor(data.vectors, dtype=torch.float32, device=device),
        torch.as_tensor(data.codes, device=device),
    )
