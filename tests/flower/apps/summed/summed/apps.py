"""Every node moves 100 weights by numbers that the test knows; the server keeps all that reaches it."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Context, Message
from flwr.client import NumPyClient
from flwr.client.mod import secaggplus_mod
from flwr.clientapp import ClientApp
from flwr.common import bytes_to_ndarray, ndarrays_to_parameters
from flwr.server import LegacyContext, ServerConfig
from flwr.server.strategy import FedAvg
from flwr.server.workflow import DefaultWorkflow, SecAggPlusWorkflow
from flwr.serverapp import Grid, ServerApp

from fedveil.flower import shield_mod
from fedveil.flower.capture import capture


class Moving(NumPyClient):
    def __init__(self, number: int) -> None:
        self.number = number

    def fit(self, parameters: list[np.ndarray], config: dict[str, Any]) -> tuple[list[np.ndarray], int, dict[str, Any]]:
        step = np.random.default_rng(self.number).normal(size=parameters[0].shape).astype(np.float32)
        return [parameters[0] + step], 10, {}


def client_fn(context: Context) -> Any:
    return Moving(int(context.node_config["partition-id"])).to_client()


# Mods run from left to right: the shield is nearest to the app, SecAgg+ masks what the shield lets out.
client = ClientApp(client_fn, mods=[secaggplus_mod, shield_mod()])
server = ServerApp()


class Watched:
    """A grid that writes down everything that the server receives."""

    def __init__(self, grid: Grid, folder: Path) -> None:
        self.grid, self.folder, self.count = grid, folder, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.grid, name)

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
        replies = list(self.grid.send_and_receive(messages, timeout=timeout))
        for reply in replies:
            about: dict[str, Any] = {"node": str(reply.metadata.src_node_id), "arrays": 0, "records": {}}
            if reply.has_error():
                about["error"] = reply.error.reason
            else:
                about["arrays"] = sum(len(record) for record in reply.content.array_records.values())
                for name, record in reply.content.config_records.items():
                    about["records"][name] = sorted(record)
                    for key, value in record.items():
                        if key == "masked_params":
                            arrays = [bytes_to_ndarray(item) for item in value]
                            about["masked"] = [array.ravel().tolist() for array in arrays]
                            about["bytes"] = sum(len(item) for item in value)
            self.count += 1
            (self.folder / f"{self.count:04d}.json").write_text(json.dumps(about))
        return replies


@server.main()
def main(grid: Grid, context: Context) -> None:
    first = ndarrays_to_parameters([np.zeros(100, dtype=np.float32)])
    strategy = FedAvg(fraction_evaluate=0.0, min_fit_clients=3, min_available_clients=3, initial_parameters=first)
    legacy = LegacyContext(
        context=context,
        config=ServerConfig(num_rounds=1),
        strategy=capture(strategy, str(context.run_config["capture"])),
    )
    adding = SecAggPlusWorkflow(num_shares=3, reconstruction_threshold=2, max_weight=10, timeout=300)
    watched = Watched(grid, Path(str(context.run_config["received"])))
    DefaultWorkflow(fit_workflow=adding)(watched, legacy)
    print("the rounds are over")
