"""What a phone does with the server's messages."""

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from quickstart.task import load_data, make_model, train

app = ClientApp()


@app.train()
def train_model(message: Message, context: Context) -> Message:
    """Train the server's weights on the phone's own records and send them back."""
    model = make_model()
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    x, y = load_data(context.node_config["data"])
    settings = context.run_config
    loss = train(model, x, y, int(settings["local-epochs"]), float(settings["learning-rate"]))
    metrics = MetricRecord({"num-examples": len(y), "train_loss": loss})
    content = RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics})
    return Message(content=content, reply_to=message)
