"""Flower's records as flat updates, and back."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from flower_site import record, weights
from flwr.app import RecordDict
from hypothesis import given
from hypothesis import strategies as st

from fedveil.federation.weights import Layout
from fedveil.flower.records import (
    FlatLayout,
    RecordsError,
    answer_of,
    arrays_of,
    check_same,
    content_of,
    received_arrays,
)
from fedveil.updates.segments import Segment

SHAPES = st.lists(st.lists(st.integers(1, 3), max_size=3).map(tuple), min_size=1, max_size=5)
KINDS = st.sampled_from([np.float16, np.float32, np.float64, np.int64, np.uint8])


@given(SHAPES, st.data())
def test_an_update_moves_the_received_weights_to_the_trained_ones(
    shapes: list[tuple[int, ...]], data: st.DataObject
) -> None:
    draw = np.random.default_rng(0)
    kinds = [np.float32, *(data.draw(KINDS) for _ in shapes[1:])]
    received, reached = {}, {}
    for number, (shape, kind) in enumerate(zip(shapes, kinds, strict=True)):
        received[f"{number}.w"] = np.asarray(10 * draw.random(size=shape)).astype(kind)
        reached[f"{number}.w"] = np.asarray(10 * draw.random(size=shape)).astype(kind)
    layout = FlatLayout.of(received)
    left = layout.moved(received, layout.update(received, reached))
    assert list(left) == list(received)
    for key, array in left.items():
        assert array.dtype == received[key].dtype
        assert array.shape == received[key].shape
        if array.dtype.kind == "f":
            precision = float(np.finfo(array.dtype).eps)
            np.testing.assert_allclose(array, reached[key], rtol=4 * precision, atol=8 * precision)
        else:
            np.testing.assert_array_equal(array, received[key])


def test_a_zero_update_leaves_every_bit_of_the_weights() -> None:
    received = weights()
    layout = FlatLayout.of(received)
    left = layout.moved(received, layout.update(received, received))
    for key, array in received.items():
        assert array.tobytes() == left[key].tobytes()


def test_segments_say_where_each_array_lies() -> None:
    layout = FlatLayout.of(weights())
    assert [(segment.name, segment.shape, segment.start, segment.statistic) for segment in layout.segments] == [
        ("0.weight", (4, 3), 0, False),
        ("0.bias", (4,), 12, False),
        ("1.running_var", (4,), 16, True),
    ]


def test_a_state_is_put_in_the_order_of_fedveils_layout() -> None:
    network = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2))
    layout = Layout.of(network)
    segments = tuple(
        Segment("model", entry.name, entry.shape, entry.start, entry.start >= layout.trained)
        for entry in layout.parameters + layout.buffers
    )
    state = {name: array.numpy() for name, array in network.state_dict().items()}
    zero = {name: np.zeros_like(array) for name, array in state.items()}
    for named in (state, {f"model.{name}": array for name, array in state.items()}):
        flat = FlatLayout.of(named, segments).update(dict(zip(named, zero.values(), strict=True)), named)
        torch.testing.assert_close(flat[0], layout.flatten(network))
    with pytest.raises(RecordsError, match=r"'2\.bias' of shape \(2,\) is missing here"):
        FlatLayout.of({("other" if name == "2.bias" else name): array for name, array in state.items()}, segments)


def test_invalid_arrays_are_refused() -> None:
    for bad in (np.array(["a"]), np.array([1 + 2j]), np.array(["2020-01-01"], dtype="datetime64[D]")):
        with pytest.raises(RecordsError, match="plain numbers"):
            arrays_of(record({"w": bad}))


def test_the_reply_is_a_new_record() -> None:
    content = RecordDict({"arrays": record(weights())})
    received = received_arrays(content)
    answer = answer_of(content, received)
    assert answer.arrays is not None
    check_same(received["arrays"], answer.arrays)
    out = content_of(answer, answer.arrays, {})
    assert list(out) == ["arrays"]
    assert out["arrays"] is not content["arrays"]
