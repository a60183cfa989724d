"""Every node adds its partition's number plus one to what it was sent; the server takes the mean."""

import numpy as np
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

client = ClientApp()
server = ServerApp()


@client.train()
def train(message: Message, context: Context) -> Message:
    (sent,) = message.content["arrays"].to_numpy_ndarrays()
    moved = sent + 1 + int(context.node_config["partition-id"])
    reply = {"arrays": ArrayRecord([moved]), "metrics": MetricRecord({"num-examples": 1})}
    return Message(content=RecordDict(reply), reply_to=message)


@server.main()
def main(grid: Grid, context: Context) -> None:
    if context.run_config["fail"]:
        raise ValueError("this app was told to fail")
    nodes = int(context.run_config["min-nodes"])
    strategy = FedAvg(fraction_evaluate=0.0, min_train_nodes=nodes, min_available_nodes=nodes, min_evaluate_nodes=0)
    result = strategy.start(
        grid, ArrayRecord([np.zeros(3)]), num_rounds=int(context.run_config["num-server-rounds"]), timeout=30
    )
    print("the mean is", result.arrays.to_numpy_ndarrays()[0].tolist())
