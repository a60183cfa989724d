"""The same FedAvg work on pfl's simulated backend: prints the median seconds per round.

    python benchmarks/pfl_peer.py DEVICES ROUNDS

Needs `pip install pfl`.
"""

from __future__ import annotations

import statistics
import sys
import time

import numpy as np
import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data import FederatedDataset
from pfl.data.pytorch import PyTorchTensorDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam import NNEvalHyperParams, NNTrainHyperParams
from pfl.metrics import Metrics, Weighted
from pfl.model.pytorch import PyTorchModel
from torch import nn
from torch.nn import functional

RECORDS, FEATURES, BATCH, EPOCHS, RATE = 260, 103, 10, 10, 0.01


class Network(nn.Sequential):
    """The MLP with the two methods that pfl asks of a model."""

    def __init__(self) -> None:
        super().__init__(nn.Linear(FEATURES, 64), nn.ReLU(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 2))

    def loss(self, x: torch.Tensor, y: torch.Tensor, eval: bool = False) -> torch.Tensor:
        """Return the loss that a device minimises."""
        return functional.cross_entropy(self(x), y)

    @torch.no_grad()
    def metrics(self, x: torch.Tensor, y: torch.Tensor, eval: bool = False) -> dict[str, Weighted]:
        """Return the metrics that a device reports."""
        return {"loss": Weighted(functional.cross_entropy(self(x), y, reduction="sum").item(), len(x))}


class Clock(TrainingProcessCallback):
    """Notes when each round ends."""

    def __init__(self) -> None:
        self.ends = [time.perf_counter()]

    def after_central_iteration(self, aggregate_metrics, model, *, central_iteration):  # type: ignore[no-untyped-def]
        """Read the clock; let training continue."""
        self.ends.append(time.perf_counter())
        return False, Metrics()


def main() -> None:
    """Run the rounds."""
    devices, rounds = int(sys.argv[1]), int(sys.argv[2])
    np.random.seed(0)  # noqa: NPY002 (pfl samples users by numpy's global state)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(devices, RECORDS, FEATURES, generator=generator)
    y = (x[:, :, :20].sum(dim=2) > 0).long()
    network = Network()
    model = PyTorchModel(network, torch.optim.SGD, torch.optim.SGD(network.parameters(), 1.0))
    users = FederatedDataset(
        lambda user: PyTorchTensorDataset((x[user], y[user]), user_id=str(user)),
        get_user_sampler("minimize_reuse", list(range(devices))),
    )
    clock = Clock()
    FederatedAveraging().run(
        NNAlgorithmParams(
            central_num_iterations=rounds, evaluation_frequency=10**6, train_cohort_size=devices, val_cohort_size=0
        ),
        SimulatedBackend(training_data=users, val_data=users),
        model,
        NNTrainHyperParams(local_learning_rate=RATE, local_num_epochs=EPOCHS, local_batch_size=BATCH),
        NNEvalHyperParams(local_batch_size=None),
        callbacks=[clock],
    )
    times = np.diff(clock.ends)
    print(statistics.median(times[1:] if len(times) > 1 else times))


if __name__ == "__main__":
    main()
