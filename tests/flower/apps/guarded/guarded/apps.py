"""A node moves every weight; the shield decides what leaves. It can be made to stop in the middle of a round."""

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from fedveil.flower import shield_mod
from fedveil.flower.capture import capture

client = ClientApp(mods=[shield_mod()])
server = ServerApp()


@client.train()
def train(message: Message, context: Context) -> Message:
    number = int(message.content["config"]["server-round"])
    if number == context.node_config.get("stop-in-round"):
        Path(str(context.node_config["marker"])).touch()
        time.sleep(300)
    (sent,) = message.content["arrays"].to_numpy_ndarrays()
    moved = sent + np.random.default_rng([number, context.node_id % 2**32]).normal(size=sent.shape)
    reply = {"arrays": ArrayRecord([moved]), "metrics": MetricRecord({"num-examples": 1})}
    return Message(content=RecordDict(reply), reply_to=message)


class Patient:
    """A grid on which nobody waits for nodes that are known to be gone; Flower itself notices after a minute or so."""

    def __init__(self, grid: Grid, gone: Path) -> None:
        self.grid, self.gone = grid, gone

    def __getattr__(self, name: str) -> Any:
        return getattr(self.grid, name)

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float) -> list[Message]:
        sent = list(messages)
        waiting = {message.metadata.dst_node_id for message in sent}
        ids, replies, end = set(self.grid.push_messages(sent)), [], time.monotonic() + timeout
        while waiting and time.monotonic() < end:
            time.sleep(0.5)
            new = list(self.grid.pull_messages(ids))
            ids -= {reply.metadata.reply_to_message_id for reply in new}
            waiting -= {reply.metadata.src_node_id for reply in new}
            replies += new
            waiting -= {int(node) for node in self.gone.read_text().split()} if self.gone.exists() else set()
        return replies


@server.main()
def main(grid: Grid, context: Context) -> None:
    settings = context.run_config
    strategy = FedAvg(fraction_evaluate=0.0, min_train_nodes=1, min_available_nodes=1, min_evaluate_nodes=0)
    rounds, patient = int(settings["num-server-rounds"]), Patient(grid, Path(str(settings["gone"])))
    capture(strategy, str(settings["capture"])).start(
        patient, ArrayRecord([np.zeros(100)]), num_rounds=rounds, timeout=300
    )
    print("all rounds are over")
