"""Keep what a Flower server receives: a wrapper around any strategy, to audit a server of one's own.

    strategy = capture(FedAvg(...), "captured")   # a strategy of the Message API (flwr.serverapp.strategy), or legacy

The wrapped strategy still aggregates. The folder holds what the server could have kept anyway: whoever runs the server
sees every single update, unless SecAgg+ adds them up first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np
import numpy.typing as npt
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.common import parameters_to_ndarrays
from flwr.server.client_manager import ClientManager
from flwr.server.client_proxy import ClientProxy
from flwr.server.strategy import Strategy as LegacyStrategy
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy

from fedveil.core.errors import InputError
from fedveil.flower.captured import Reply, write_round
from fedveil.flower.records import Arrays, FlatLayout, RecordsError, arrays_of
from fedveil.updates.segments import Segment


@overload
def capture(strategy: Strategy, folder: str | Path) -> CapturingStrategy: ...
@overload
def capture(strategy: LegacyStrategy, folder: str | Path) -> CapturingLegacyStrategy: ...
def capture(strategy: Strategy | LegacyStrategy, folder: str | Path) -> Strategy | LegacyStrategy:
    """Wrap a strategy so that every reply it receives is kept in a folder, which must be new or empty."""
    path = Path(folder)
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise InputError(f"{path}: is not empty; give every run's capture a folder of its own")
    path.mkdir(parents=True, exist_ok=True)
    if isinstance(strategy, Strategy):
        return CapturingStrategy(strategy, path)
    if isinstance(strategy, LegacyStrategy):
        return CapturingLegacyStrategy(strategy, path)
    raise InputError(f"capture: {type(strategy).__name__} is not a Flower strategy; wrap one, such as FedAvg")


class CapturingStrategy(Strategy):
    """A strategy of the Message API whose replies are kept; the wrapped strategy makes all decisions."""

    def __init__(self, strategy: Strategy, folder: Path) -> None:
        self.strategy, self.folder = strategy, folder
        self._sent: dict[int, dict[str, Arrays]] = {}

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Remember what each node is sent."""
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
        """Remember what each node is sent."""
        return self._remembered(self.strategy.configure_evaluate(server_round, arrays, config, grid))

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """Keep every reply, then aggregate."""
        received = list(replies)
        if self._sent:
            self._write("evaluate", server_round, received)
        return self.strategy.aggregate_evaluate(server_round, received)

    def summary(self) -> None:
        """Log the wrapped strategy's summary."""
        self.strategy.summary()

    def _remembered(self, messages: Iterable[Message]) -> list[Message]:
        sent = list(messages)
        self._sent = {message.metadata.dst_node_id: _arrays(message) for message in sent}
        return sent

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
            reply, reply_segments = _reply(str(node), kind, self._sent.get(node, {}), message, figures)
            replies.append(reply)
            segments = reply_segments or segments
        write_round(self.folder, server_round, kind, [str(node) for node in self._sent], replies, segments)


def _reply(
    node: str, kind: str, sent: dict[str, Arrays], message: Message, figures: dict[str, Any]
) -> tuple[Reply, tuple[Segment, ...]]:
    """Read a reply's arrays; a reply whose arrays are not an update of what was sent is kept as an error."""
    try:
        before = _joined(sent)
        after = _joined(_arrays(message))
        if not after:
            return Reply(node, kind, figures=figures), ()
        update, segments = _update(before, after)
        return Reply(node, kind, update, figures), segments
    except RecordsError as fault:
        return Reply(node, kind, figures=figures, error=f"no update: {fault}"), ()


def _arrays(message: Message) -> dict[str, Arrays]:
    return {name: arrays_of(record) for name, record in message.content.array_records.items()}


def _joined(records: dict[str, Arrays]) -> Arrays:
    """Put several records' arrays into one, with the records' names in front; a single record keeps its names."""
    if len(records) == 1:
        return next(iter(records.values()))
    return {f"{name}.{key}": array for name, arrays in records.items() for key, array in arrays.items()}


def _update(before: Arrays, after: Arrays) -> tuple[npt.NDArray[np.floating], tuple[Segment, ...]]:
    """Return after − before and its layout; types may differ, as SecAgg+ turns single precision into double."""
    if {key: array.shape for key, array in before.items()} != {key: array.shape for key, array in after.items()}:
        raise RecordsError("the arrays that came back differ in name or shape from those that were sent")
    layout = FlatLayout.of(before)
    update: npt.NDArray[np.floating] = layout.update(before, after)[0].numpy()
    return update, layout.segments


class CapturingLegacyStrategy(LegacyStrategy):
    """A legacy strategy (NumPyClient apps) whose fit results are kept; the wrapped strategy makes all decisions."""

    def __init__(self, strategy: LegacyStrategy, folder: Path) -> None:
        self.strategy, self.folder = strategy, folder
        self._sent: dict[str, Arrays] = {}

    def initialize_parameters(self, client_manager: ClientManager) -> Any:
        """Return the wrapped strategy's initial parameters."""
        return self.strategy.initialize_parameters(client_manager)

    def configure_fit(self, server_round: int, parameters: Any, client_manager: ClientManager) -> Any:
        """Remember what each node is sent."""
        instructions = self.strategy.configure_fit(server_round, parameters, client_manager)
        self._sent = {_node(client): _numbered(instruction.parameters) for client, instruction in instructions}
        return instructions

    def aggregate_fit(self, server_round: int, results: Any, failures: Any) -> Any:
        """Keep every result, then aggregate."""
        replies, segments = [], tuple[Segment, ...]()
        for client, result in results:
            node = _node(client)
            metrics = {key: _plain(value) for key, value in result.metrics.items()}
            figures = {"num-examples": result.num_examples, **metrics}
            try:
                update, segments = _update(self._sent.get(node, {}), _numbered(result.parameters))
                replies.append(Reply(node, "train", update, figures))
            except RecordsError as fault:
                replies.append(Reply(node, "train", figures=figures, error=f"no update: {fault}"))
        for failure in failures:
            node, why = (_node(failure[0]), "refused") if isinstance(failure, tuple) else ("unknown", str(failure))
            replies.append(Reply(node, "train", error=why))
        write_round(self.folder, server_round, "train", list(self._sent), replies, segments)
        return self.strategy.aggregate_fit(server_round, results, failures)

    def configure_evaluate(self, server_round: int, parameters: Any, client_manager: ClientManager) -> Any:
        """Return the wrapped strategy's instructions."""
        return self.strategy.configure_evaluate(server_round, parameters, client_manager)

    def aggregate_evaluate(self, server_round: int, results: Any, failures: Any) -> Any:
        """Return the wrapped strategy's aggregate."""
        return self.strategy.aggregate_evaluate(server_round, results, failures)

    def evaluate(self, server_round: int, parameters: Any) -> Any:
        """Return the wrapped strategy's evaluation."""
        return self.strategy.evaluate(server_round, parameters)


def _node(client: ClientProxy) -> str:
    return str(getattr(client, "node_id", client.cid))


def _numbered(parameters: Any) -> Arrays:
    return {str(index): array for index, array in enumerate(parameters_to_ndarrays(parameters))}


def _plain(value: Any) -> Any:
    return value.hex() if isinstance(value, bytes) else value
