"""A site with a policy, and Flower's own messages to it, as its runtime hands them to an app."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message, Metadata, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

NODE, RUN = 7, 11
DP = 'shield = {kind = "dp-gaussian", clip = 1.0, sigma = 4.0}\n'
SPARSE = 'shield = {kind = "sparsify", p = 0.5}\n'

_numbers = itertools.count(1)


class Site:
    """One node: its folder with a policy, its state, and an app."""

    def __init__(self, folder: Path, policy: str) -> None:
        self.folder, self.policy = folder, folder / "policy.toml"
        self.write(policy)
        self.context = Context(RUN, NODE, {"fedveil-policy": str(self.policy)}, RecordDict(), {})

    def write(self, policy: str) -> None:
        self.policy.write_text(policy, encoding="utf-8")

    @property
    def ledger(self) -> Path:
        return self.folder / "ledger.jsonl"

    @property
    def head(self) -> Path:
        return self.folder / "ledger.jsonl.head"

    @property
    def lines(self) -> list[str]:
        return self.ledger.read_text(encoding="utf-8").splitlines() if self.ledger.exists() else []


def message(content: RecordDict, kind: str = "train") -> Message:
    """Return a message as it reaches a node."""
    metadata = Metadata(RUN, f"message-{next(_numbers)}", 1, NODE, "", "1", time.time(), 3600.0, kind)
    return Message(content=content, metadata=metadata)


def weights(seed: int = 0) -> dict[str, np.ndarray[Any, Any]]:
    """Return arrays of several kinds: a layer, statistics and a counter."""
    draw = np.random.default_rng(seed)
    return {
        "0.weight": draw.normal(size=(4, 3)).astype(np.float32),
        "0.bias": draw.normal(size=4).astype(np.float32),
        "1.running_var": np.ones(4, dtype=np.float32),
        "1.num_batches_tracked": np.array(3, dtype=np.int64),
    }


def record(arrays: dict[str, np.ndarray[Any, Any]]) -> ArrayRecord:
    return ArrayRecord({key: Array(np.asarray(array)) for key, array in arrays.items()})


def order(kind: str = "train", arrays: dict[str, np.ndarray[Any, Any]] | None = None) -> Message:
    """Return the server's message with weights."""
    return message(RecordDict({"arrays": record(weights() if arrays is None else arrays)}), kind)


def trained(request: Message, step: float = 0.25) -> dict[str, np.ndarray[Any, Any]]:
    """Return the weights after training: each number moved by a different step."""
    arrays, before = {}, 1
    for key, array in request.content["arrays"].items():
        array = array.numpy()
        moved = array + step * (before + np.arange(array.size).reshape(array.shape))
        arrays[key] = moved.astype(array.dtype)
        before += array.size
    return arrays


def app_of(*mods: Any, reply: Callable[[Message], RecordDict] | None = None) -> ClientApp:
    """Return an app whose train, evaluate and query functions answer alike."""

    def usual(request: Message) -> RecordDict:
        return RecordDict({"arrays": record(trained(request)), "metrics": MetricRecord({"num-examples": 5})})

    app = ClientApp(mods=list(mods))
    answer = reply or usual

    def act(request: Message, context: Context) -> Message:
        return Message(answer(request), reply_to=request)

    app.train()(act)
    app.evaluate()(act)
    app.query()(act)
    return app


def arrays_in(reply: Message) -> dict[str, np.ndarray[Any, Any]]:
    (arrays,) = reply.content.array_records.values()
    return {key: array.numpy() for key, array in arrays.items()}


def refused(reply: Message, sentence: str) -> None:
    """Check that a reply is one fixed sentence, and nothing else."""
    assert reply.has_error()
    assert not reply.has_content()
    assert reply.error.reason == f"fedveil: nothing was sent: {sentence}"
