"""A grid whose nodes run in this process: real ClientApps and messages, but no other processes."""

from __future__ import annotations

import copy
from collections.abc import Iterable

from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity


class DirectGrid(Grid):
    """Calls each node's app with a copy of every message; what an app raises is an error reply, as in the runtime."""

    def __init__(self, run_config: dict | None = None) -> None:
        # Flower's runtime says so to every process before it hands over to an app.
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1
        self.run_config = run_config or {}
        self.nodes: dict[int, tuple[ClientApp, Context]] = {}
        self.seen: list[Message] = []
        self.mute: set[int] = set()

    def join(self, app: ClientApp, node_config: dict) -> int:
        node = 100 + len(self.nodes) + len(self.seen) * 1000
        self.nodes[node] = (app, Context(1, node, node_config, RecordDict(), dict(self.run_config)))
        return node

    def leave(self, node: int) -> None:
        del self.nodes[node]

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
        replies = []
        for message in messages:
            node = message.metadata.dst_node_id
            if node not in self.nodes or node in self.mute:
                continue
            app, context = self.nodes[node]
            try:
                reply = app(copy.deepcopy(message), context)
            except Exception as fault:
                reply = Message(Error(0, str(fault)), reply_to=message)
            replies.append(copy.deepcopy(reply))
        self.seen += replies
        return replies

    def get_node_ids(self) -> list[int]:
        return list(self.nodes)

    def get_nodes(self) -> list:
        raise NotImplementedError

    def set_run(self, run: object) -> None:
        raise NotImplementedError

    @property
    def run(self) -> object:
        raise NotImplementedError

    def create_message(self, *arguments: object, **named: object) -> Message:
        raise NotImplementedError

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        raise NotImplementedError

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        raise NotImplementedError
