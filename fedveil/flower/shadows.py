"""Shadow nodes: the attacker's nodes, which run in this process with the same ClientApp and mods as real nodes.

Whoever runs the server has the app and the weights that it sent. With records of people whose attributes it knows, it
can learn what the updates of such people look like behind the same shield.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.supercore.task_identity import TaskIdentity

from fedveil.core.errors import InputError
from fedveil.flower.records import FlatLayout, arrays_of, check_same

Setting = str | int | float | bool


def shadow_updates(
    app: ClientApp,
    weights: ArrayRecord,
    nodes: Sequence[Mapping[str, Setting]],
    run_config: Mapping[str, Setting],
    record: str = "arrays",
) -> npt.NDArray[np.floating]:
    """Return the updates, (n, d), of nodes with these node configs when they train these weights.

    Args:
        app: the app under audit; its mods run as on a real node.
        weights: what the server sends in the round that is attacked.
        nodes: a node config for each node.
        run_config: the run's config.
        record: the name under which the app expects the weights.
    """
    received = arrays_of(weights)
    layout = FlatLayout.of(received)
    updates: list[Any] = []
    identity = TaskIdentity._run_id, TaskIdentity._node_id, TaskIdentity._task_id
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1
    try:
        for number, config in enumerate(nodes):
            content = RecordDict({record: weights.copy(), "config": ConfigRecord({"server-round": 1})})
            message = Message(content, dst_node_id=number + 2, message_type="train")
            message.metadata.__dict__["_message_id"] = f"shadow-{number}"
            reply = app(message, Context(1, number + 2, dict(config), RecordDict(), dict(run_config)))
            if reply.has_error():
                raise InputError(f"shadow node {number}: {reply.error.reason}")
            trained = arrays_of(reply.content.array_records[record])
            check_same(received, trained)
            updates.append(layout.update(received, trained)[0].numpy())
    finally:
        TaskIdentity._run_id, TaskIdentity._node_id, TaskIdentity._task_id = identity
    return np.stack(updates)
