"""What a server received: kept round by round, read back, and attacked as any view."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message, MetricRecord, RecordDict
from flwr.common import Code, FitIns, FitRes, Status, ndarrays_to_parameters
from flwr.server.strategy import FedAvg as LegacyFedAvg
from flwr.serverapp.exception import InconsistentMessageReplies
from flwr.serverapp.strategy import FedAvg
from flwr.supercore.task_identity import TaskIdentity
from typer.testing import CliRunner

from fedveil.attacks.panel import panel
from fedveil.cli import app
from fedveil.core.errors import InputError
from fedveil.flower.capture import capture
from fedveil.flower.captured import Captured, read_node_values

WEIGHTS = {"layer.weight": np.arange(6, dtype=np.float32).reshape(2, 3), "layer.bias": np.zeros(2, dtype=np.float32)}


@pytest.fixture(autouse=True, scope="module")
def _server() -> Iterator[None]:
    """Act as the server of a run: Flower lets only an identified task create messages."""
    before = TaskIdentity._run_id, TaskIdentity._node_id, TaskIdentity._task_id
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1
    yield
    TaskIdentity._run_id, TaskIdentity._node_id, TaskIdentity._task_id = before


class _Grid:
    def __init__(self, nodes: list[int]) -> None:
        self.nodes = nodes

    def get_node_ids(self) -> list[int]:
        return self.nodes


def _record(step: float) -> ArrayRecord:
    return ArrayRecord({name: Array(np.asarray(array + np.float32(step))) for name, array in WEIGHTS.items()})


def _asked(strategy: FedAvg, number: int, nodes: list[int]) -> list[Message]:
    messages = list(strategy.configure_train(number, _record(0), ConfigRecord(), _Grid(nodes)))  # type: ignore[arg-type]
    for index, message in enumerate(messages):
        message.metadata.__dict__["_message_id"] = f"m{number}-{index}"
    return messages


def _answer(message: Message, content: RecordDict) -> Message:
    reply = Message(content=content, reply_to=message)
    reply.metadata.__dict__["_src_node_id"] = message.metadata.dst_node_id
    return reply


def _strategy(folder: Path, nodes: int) -> FedAvg:
    strategy = FedAvg(min_train_nodes=nodes, min_available_nodes=nodes, min_evaluate_nodes=nodes)
    return capture(strategy, folder)  # type: ignore[return-value]


def test_every_reply_is_kept_with_its_sender_round_and_error(tmp_path: Path) -> None:
    strategy = _strategy(tmp_path / "seen", 3)
    for number in (1, 2):
        first, second, third = sorted(_asked(strategy, number, [7, 8, 2**63 + 5]), key=lambda m: m.metadata.dst_node_id)
        metrics = MetricRecord({"num-examples": 4})
        good = _answer(first, RecordDict({"arrays": _record(number), "metrics": metrics}))
        other = ArrayRecord({"layer.weight": Array(np.zeros((2, 2), np.float32))})
        wrong = _answer(second, RecordDict({"arrays": other, "metrics": metrics}))
        failed = Message(Error(code=0, reason="the policy is missing"), reply_to=third)
        failed.metadata.__dict__["_src_node_id"] = 2**63 + 5
        if number == 1:
            strategy.aggregate_train(number, [good, failed])
        else:  # the wrapped strategy stops at arrays of another layout, after all replies were kept
            with pytest.raises(InconsistentMessageReplies):
                strategy.aggregate_train(number, [good, failed, wrong])
    seen = Captured.load(tmp_path / "seen")
    assert seen.nodes == ("7", "7")
    assert seen.rounds.tolist() == [1, 2]
    np.testing.assert_array_equal(seen.updates, np.repeat([[1.0], [2.0]], 8, axis=1))
    assert [segment.name for segment in seen.segments] == ["layer.weight", "layer.bias"]
    assert set(seen.recipients["train", 1]) == {"7", "8", str(2**63 + 5)}
    errors = {reply["node"]: reply["error"] for reply in seen.replies if reply["error"]}
    assert "the policy is missing" in errors[str(2**63 + 5)]
    assert errors["8"].startswith("no update: ")
    assert seen.replies[0]["figures"] == {"num-examples": 4}


def test_legacy_strategies_are_captured_and_aggregate_as_before(tmp_path: Path) -> None:
    plain, kept = LegacyFedAvg(), capture(LegacyFedAvg(), tmp_path / "seen")
    clients = [SimpleNamespace(cid=str(node), node_id=node) for node in (3, 4)]
    sent = ndarrays_to_parameters([np.ones(3, np.float32)])
    kept.strategy.configure_fit = lambda *_: [(client, FitIns(sent, {})) for client in clients]  # type: ignore[method-assign, assignment, misc, return-value]
    kept.configure_fit(1, sent, None)  # type: ignore[arg-type]
    results = [
        (client, FitRes(Status(Code.OK, ""), ndarrays_to_parameters([np.full(3, step)]), 5, {"loss": 0.5}))
        for step, client in enumerate(clients, 2)
    ]
    expected, _ = plain.aggregate_fit(1, results, [])  # type: ignore[arg-type]
    aggregated, _ = kept.aggregate_fit(1, results, [ValueError("lost")])
    assert aggregated == expected
    seen = Captured.load(tmp_path / "seen")
    assert seen.nodes == ("3", "4")
    np.testing.assert_array_equal(seen.updates, [[1, 1, 1], [2, 2, 2]])
    assert seen.replies[0]["figures"] == {"num-examples": 5, "loss": 0.5}
    assert seen.replies[-1]["error"] == "lost"


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """60 nodes in two rounds; every second one's update leans to one side, by its attribute."""
    folder = tmp_path_factory.mktemp("capture")
    rng, strategy, nodes = np.random.default_rng(0), _strategy(folder / "seen", 60), list(range(100, 160))
    for number in (1, 2):
        replies = []
        for message in _asked(strategy, number, nodes):
            side = 1.0 if message.metadata.dst_node_id % 2 else -1.0
            moved = {
                key: np.asarray(array + rng.normal(size=array.shape) + side, np.float32)
                for key, array in WEIGHTS.items()
            }
            arrays = ArrayRecord({key: Array(array) for key, array in moved.items()})
            replies.append(
                _answer(message, RecordDict({"arrays": arrays, "metrics": MetricRecord({"num-examples": 1})}))
            )
        strategy.aggregate_train(number, replies)
    rows = "".join(f"{node},{'left' if node % 2 else 'right'},{node}\n" for node in nodes)
    (folder / "nodes.csv").write_text(f"node,side,alone\n{rows}")
    return folder / "seen", folder / "nodes.csv"


def test_ids_of_twenty_digits_are_read_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text("node,sex\n18329792572047073640,f\n12614696117397288213,\n5,m\n")
    assert read_node_values(tmp_path / "nodes.csv", "sex") == {"18329792572047073640": "f", "5": "m"}


def test_a_capture_is_attacked_as_a_view_and_no_node_is_on_both_sides(captured: tuple[Path, Path]) -> None:
    seen = Captured.load(captured[0])
    view = seen.view({"side": read_node_values(captured[1], "side")}, seed=1)
    seen_groups = set(view.auxiliary.groups.tolist()) | set(view.validation.groups.tolist())  # type: ignore[union-attr]
    assert not seen_groups & set(view.victims.groups.tolist())  # type: ignore[union-attr]
    judgement = panel("updates", seed=0).judge(view)
    assert judgement.worst.balanced_accuracy.estimate > 0.9
    together = seen.view({"side": read_node_values(captured[1], "side")}, by_node=True)
    assert sum(map(len, (together.auxiliary, together.validation, together.victims))) == 60


def test_fedveil_leak_reads_a_capture(captured: tuple[Path, Path]) -> None:
    seen, nodes = map(str, captured)
    done = CliRunner().invoke(app, ["leak", seen, "--attribute", f"{nodes}:side", "--panel", "quick", "--json"])
    assert done.exit_code == 0, done.output
    answer = json.loads(done.stdout)
    assert answer["worst"]["balanced_accuracy"]["estimate"] > 0.9
    assert answer["prior"]["estimate"] == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--key", "x"], "--key"),
        (["--group", "side"], "--group"),
        (["--given", "side"], "--given"),
    ],
)
def test_options_for_tables_are_refused_for_a_capture(
    captured: tuple[Path, Path], more: list[str], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        CliRunner().invoke(
            app, ["leak", str(captured[0]), "--attribute", f"{captured[1]}:side", *more], catch_exceptions=False
        )


def test_faults_are_reported_in_one_line(captured: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="but not a capture"):
        Captured.load(tmp_path)
    with pytest.raises(InputError, match="is not empty"):
        capture(FedAvg(), captured[0])
    with pytest.raises(InputError, match="is not a Flower strategy"):
        capture(object(), tmp_path / "new")  # type: ignore[call-overload]
    seen = Captured.load(captured[0])
    with pytest.raises(InputError, match="none of its 1 nodes has sent an update"):
        seen.view({"side": {"5": "left"}})
    twice = tmp_path / "twice.csv"
    twice.write_text("node,side\n1,left\n1,right\n")
    with pytest.raises(InputError, match="more than one row"):
        read_node_values(twice, "side")
    for name, content in (("train-00001.json", "{"), ("train-00001.json", '{"format": "other"}')):
        (tmp_path / "broken").mkdir(exist_ok=True)
        (tmp_path / "broken" / name).write_text(content)
        with pytest.raises(InputError, match=r"cannot be read as a capture|not a capture"):
            Captured.load(tmp_path / "broken")
