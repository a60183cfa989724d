"""The same FedAvg work on Flower's simulation engine: prints the median seconds per round.

    python benchmarks/flower_peer.py DEVICES ROUNDS

Needs `pip install 'flwr[simulation]'`. One Ray actor per core, one thread each, as Flower's own documentation advises.
"""

from __future__ import annotations

import functools
import os
import statistics
import sys
import time

os.environ.update(FLWR_TELEMETRY_ENABLED="0", FLWR_DISABLE_UPDATE_CHECK="1", RAY_USAGE_STATS_ENABLED="0")

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from torch.nn import functional

from fedveil.core.models import mlp

RECORDS, FEATURES, BATCH, EPOCHS, RATE = 260, 103, 10, 10, 0.01
SIZES = [FEATURES, 64, 128, 2]

client = ClientApp()
server = ServerApp()


@functools.lru_cache(1)
def data(devices: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Make the devices' data once per process."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(devices, RECORDS, FEATURES, generator=generator)
    return x, (x[:, :, :20].sum(dim=2) > 0).long()


@client.train()
def train(message: Message, context: Context) -> Message:
    """Train one device for a round."""
    torch.set_num_threads(1)
    x, y = (
        column[int(context.node_config["partition-id"])] for column in data(int(context.node_config["num-partitions"]))
    )
    model = mlp(SIZES, torch.Generator().manual_seed(0))
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    optimiser = torch.optim.SGD(model.parameters(), lr=RATE)
    for _ in range(EPOCHS):
        order = torch.randperm(len(x))
        for xb, yb in zip(x[order].split(BATCH), y[order].split(BATCH), strict=True):
            optimiser.zero_grad(set_to_none=True)
            functional.cross_entropy(model(xb), yb).backward()
            optimiser.step()
    sent = RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": MetricRecord({"num-examples": len(x)})})
    return Message(content=sent, reply_to=message)


class Timed(FedAvg):
    """FedAvg that notes when each round begins and ends."""

    def configure_train(self, *arguments, **named):  # type: ignore[no-untyped-def]
        """Start the clock."""
        self.started = time.perf_counter()
        return super().configure_train(*arguments, **named)

    def aggregate_train(self, server_round, replies):  # type: ignore[no-untyped-def]
        """Stop the clock once the aggregate is complete; a round in which a device failed is not a measurement."""
        answers = list(replies)
        if len(answers) != int(sys.argv[1]) or any(answer.has_error() for answer in answers):
            raise RuntimeError("a device failed in the simulation")
        aggregated = super().aggregate_train(server_round, answers)
        TIMES.append(time.perf_counter() - self.started)
        return aggregated


TIMES: list[float] = []


@server.main()
def main(grid: Grid, context: Context) -> None:
    """Run the rounds on all devices, without evaluation."""
    strategy = Timed(fraction_train=1.0, fraction_evaluate=0.0, min_available_nodes=int(sys.argv[1]))
    start = ArrayRecord(mlp(SIZES, torch.Generator().manual_seed(0)).state_dict())
    strategy.start(grid=grid, initial_arrays=start, num_rounds=int(sys.argv[2]))


def run() -> None:
    """Simulate, and print the time of a round after the actors have started."""
    import warnings

    from flwr.simulation import run_simulation

    warnings.simplefilter("ignore")  # run_simulation is deprecated in favour of `flwr run`; the engine is the same
    run_simulation(
        server_app=server,
        client_app=client,
        num_supernodes=int(sys.argv[1]),
        backend_config={
            "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
            "init_args": {"num_cpus": os.cpu_count(), "include_dashboard": False},
        },
    )
    print(statistics.median(TIMES[1:]))


if __name__ == "__main__":
    # The actors are processes of their own: they must find this file as a module.
    here = os.path.dirname(os.path.abspath(__file__))
    os.environ["PYTHONPATH"] = os.pathsep.join([here, *filter(None, [os.environ.get("PYTHONPATH")])])
    import flower_peer

    flower_peer.run()
