"""The server: FedAvg over all connected phones."""

from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from quickstart.task import make_model

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Train for some rounds, and say that it is done."""
    settings = context.run_config
    nodes = int(settings["min-nodes"])
    strategy = FedAvg(fraction_evaluate=0.0, min_train_nodes=nodes, min_available_nodes=nodes)
    first = ArrayRecord(make_model().state_dict())
    strategy.start(grid, first, num_rounds=int(settings["num-server-rounds"]), timeout=300)
