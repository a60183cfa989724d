"""Keep what a Flower server receives: an opt-in wrapper around any strategy, for audits of one's own server.

    strategy = capture(FedAvg(...), "captured")        # Message API (flwr.serverapp.strategy) or legacy ones

Aggregation is the wrapped strategy's own. The folder holds what the server could have kept anyway: whoever runs the
server sees every single update, unless SecAgg+ adds them up before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, overload

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.server.client_manager import ClientManager
from flwr.server.client_proxy import ClientProxy
from flwr.server.strategy import Strategy as LegacyStrategy
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy

from fedveil.core.errors import InputError
from fedveil.flower.captured import Reply, write_round
from fedveil.flower.records import Arrays, Places, RecordsError, arrays_of
from fedveil.updates.segments import Segment


@overload
def capture(strategy: Strategy, folder: str | Path) -> CapturingStrategy: ...
@overload
def capture(strategy: LegacyStrategy, folder: str | Path) -> CapturingLegacyStrategy: ...
def capture(strategy: Strategy | LegacyStrategy, folder: str | Path) -> Strategy | LegacyStrategy:
    """Wrap a strategy so that every reply it receives is kept in a folder, which must be new or empty."""
    place = Path(folder)
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise InputError(f"{place}: holds something already; give every run's capture a folder of its own")
    place.mkdir(parents=True, exist_ok=True)
    if isinstance(strategy, Strategy):
        return CapturingStrategy(strategy, place)
    if isinstance(strategy, LegacyStrategy):
        return CapturingLegacyStrategy(strategy, place)
    raise InputError(f"capture: {type(strategy).__name__} is no Flower strategy")


class CapturingStrategy(Strategy):
    """A Message-API strategy whose replies are kept; all decisions stay the wrapped one's."""

    def __init__(self, strategy: Strategy, folder: Path) -> None:
        self.strategy, self.folder = strategy, folder
        self._sent: dict[int, dict[str, Arrays]] = {}

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Keep what each node is sent, then ask."""
        return self._remembered(self.strategy.configure_train(server_round, arrays, config, grid))

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Keep every reply, then aggregate."""
        received = list(replies)
        self._write("train", server_round, received)
        return self.strategy.aggregate_train(server_round, received)

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Keep what each node is sent, then ask."""
        return self._remembered(self.strategy.configure_evaluate(server_round, arrays, config, grid))

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """Keep every reply, then aggregate."""
        received = list(replies)
        if self._sent:
            self._write("evaluate", server_round, received)
        return self.strategy.aggregate_evaluate(server_round, received)

    def summary(self) -> None:
        """Say what the wrapped strategy says."""
        self.strategy.summary()

    def _remembered(self, messages: Iterable[Message]) -> list[Message]:
        asked = list(messages)
        self._sent = {message.metadata.dst_node_id: _arrays(message) for message in asked}
        return asked

    def _write(self, kind: str, server_round: int, received: Sequence[Message]) -> None:
        replies, segments = [], tuple[Segment, ...]()
        for message in received:
            node = message.metadata.src_node_id
            if message.has_error():
                reason = f"{message.error.code}: {message.error.reason}"
                replies.append(Reply(str(node), kind, error=reason))
                continue
            figures: dict[str, Any] = {}
            for numbers in message.content.metric_records.values():
                figures |= numbers
            for settings in message.content.config_records.values():
                figures |= {key: _plain(value) for key, value in settings.items()}
            reply, own = _reply(str(node), kind, self._sent.get(node, {}), message, figures)
            replies.append(reply)
            segments = own or segments
        write_round(self.folder, server_round, kind, [str(node) for node in self._sent], replies, segments)


def _reply(
    node: str, kind: str, sent: dict[str, Arrays], message: Message, figures: dict[str, Any]
) -> tuple[Reply, tuple[Segment, ...]]:
    """Read a reply's arrays; one whose arrays are no update of what was sent is kept as an error."""
    try:
        came = _joined(sent)
        reached = _joined(_arrays(message))
        if not reached:
            return Reply(node, kind, figures=figures), ()
        _check_shapes(came, reached)
        places = Places.of(came)
        return Reply(node, kind, places.update(came, reached)[0].numpy(), figures), places.segments
    except RecordsError as fault:
        return Reply(node, kind, figures=figures, error=f"no update: {fault}"), ()


def _arrays(message: Message) -> dict[str, Arrays]:
    return {name: arrays_of(record) for name, record in message.content.array_records.items()}


def _joined(records: dict[str, Arrays]) -> Arrays:
    """Put several records' arrays into one, under names that keep them apart; a single record keeps its names."""
    if len(records) == 1:
        return next(iter(records.values()))
    return {f"{name}.{key}": own for name, arrays in records.items() for key, own in arrays.items()}


def _check_shapes(came: Arrays, reached: Arrays) -> None:
    """Refuse what cannot be told as a difference; types may change on the way, as SecAgg+ makes doubles of singles."""
    if {key: own.shape for key, own in came.items()} != {key: own.shape for key, own in reached.items()}:
        raise RecordsError("the arrays that came back are not those that were sent, by name and shape")


class CapturingLegacyStrategy(LegacyStrategy):
    """A legacy strategy (NumPyClient apps) whose fit results are kept; all decisions stay the wrapped one's."""

    def __init__(self, strategy: LegacyStrategy, folder: Path) -> None:
        self.strategy, self.folder = strategy, folder
        self._sent: dict[str, Arrays] = {}

    def initialize_parameters(self, client_manager: ClientManager) -> Any:
        """Return the wrapped strategy's own."""
        return self.strategy.initialize_parameters(client_manager)

    def configure_fit(self, server_round: int, parameters: Any, client_manager: ClientManager) -> Any:
        """Keep what each node is sent, then ask."""
        asked = self.strategy.configure_fit(server_round, parameters, client_manager)
        self._sent = {_node(client): _numbered(instruction.parameters) for client, instruction in asked}
        return asked

    def aggregate_fit(self, server_round: int, results: Any, failures: Any) -> Any:
        """Keep every result, then aggregate."""
        replies, segments = [], tuple[Segment, ...]()
        for client, result in results:
            node = _node(client)
            figures = {"num-examples": result.num_examples, **{key: _plain(own) for key, own in result.metrics.items()}}
            came, reached = self._sent.get(node, {}), _numbered(result.parameters)
            try:
                _check_shapes(came, reached)
                places = Places.of(came)
                segments = places.segments
                replies.append(Reply(node, "train", places.update(came, reached)[0].numpy(), figures))
            except RecordsError as fault:
                replies.append(Reply(node, "train", figures=figures, error=f"no update: {fault}"))
        for failure in failures:
            node, what = (_node(failure[0]), "refused") if isinstance(failure, tuple) else ("unknown", str(failure))
            replies.append(Reply(node, "train", error=what))
        write_round(self.folder, server_round, "train", list(self._sent), replies, segments)
        return self.strategy.aggregate_fit(server_round, results, failures)

    def configure_evaluate(self, server_round: int, parameters: Any, client_manager: ClientManager) -> Any:
        """Return the wrapped strategy's own."""
        return self.strategy.configure_evaluate(server_round, parameters, client_manager)

    def aggregate_evaluate(self, server_round: int, results: Any, failures: Any) -> Any:
        """Return the wrapped strategy's own."""
        return self.strategy.aggregate_evaluate(server_round, results, failures)

    def evaluate(self, server_round: int, parameters: Any) -> Any:
        """Return the wrapped strategy's own."""
        return self.strategy.evaluate(server_round, parameters)


def _node(client: ClientProxy) -> str:
    return str(getattr(client, "node_id", client.cid))


def _numbered(parameters: Any) -> Arrays:
    from flwr.common import parameters_to_ndarrays

    return {str(place): own for place, own in enumerate(parameters_to_ndarrays(parameters))}


def _plain(value: Any) -> Any:
    return value.hex() if isinstance(value, bytes) else value
