"""The model, its training, and the loader of one phone's records."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

FEATURES = 24


def make_model() -> nn.Module:
    """Return the model: from a window's features to the logits of resting and walking."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(FEATURES, 32), nn.ReLU(), nn.Linear(32, 2))


def load_data(path: str | Path) -> tuple[Tensor, Tensor]:
    """Read a phone's records: one window per line, its features, then 0 (resting) or 1 (walking)."""
    records = np.loadtxt(path, delimiter=",", skiprows=1, dtype=np.float32, ndmin=2)
    return torch.from_numpy(records[:, :FEATURES]), torch.from_numpy(records[:, FEATURES]).long()


def train(model: nn.Module, x: Tensor, y: Tensor, epochs: int, learning_rate: float) -> float:
    """Train on a phone's records; return the last epoch's loss."""
    optimiser = torch.optim.SGD(model.parameters(), lr=learning_rate)
    criterion = nn.CrossEntropyLoss()
    loss = torch.tensor(0.0)
    for _ in range(epochs):
        for rows in torch.randperm(len(y)).split(16):
            optimiser.zero_grad()
            loss = criterion(model(x[rows]), y[rows])
            loss.backward()
            optimiser.step()
    return loss.item()
