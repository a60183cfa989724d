"""Flower's records as a flat update with its layout and figures, and back.

There are two kinds of apps: those of the Message API (one ArrayRecord, at most one MetricRecord, named "metrics"), and
NumPyClient apps, whose answers Flower writes as "fitres.…" and "evaluateres.…" records. The records for the server are
built from scratch: nothing of an app's answer leaves except the numbers that were checked.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict
from torch import Tensor

from fedveil.core.errors import InputError
from fedveil.core.policy import COUNT
from fedveil.updates.segments import Segment

Arrays = dict[str, npt.NDArray[Any]]
Figures = dict[str, Any]

METRICS = "metrics"
"""The name of a Message-API app's record of figures."""

MOST = 32
"""How many numbers one figure may hold."""

_STATISTICS = ("running_mean", "running_var")


class RecordsError(InputError):
    """Records that may not leave: nothing is sent."""


@dataclass(frozen=True)
class Answer:
    """What an app would send.

    Attributes:
        arrays: its arrays; None if it has none.
        record: the name of the arrays' record.
        figures: numbers by name; for a NumPyClient too, they include "num-examples" and "loss".
        legacy: "fitres" or "evaluateres" for a NumPyClient's answer, else None.
    """

    arrays: Arrays | None
    record: str | None = None
    figures: Figures = field(default_factory=dict)
    legacy: str | None = None


def arrays_of(record: ArrayRecord) -> Arrays:
    """Return a record's arrays; anything but an array of numbers is refused."""
    arrays: Arrays = {}
    for key, array in record.items():
        try:
            arrays[key] = array.numpy()
        except Exception as fault:
            raise RecordsError(f"array {key!r} cannot be read ({type(fault).__name__})") from None
        if arrays[key].dtype.kind not in "fiub":
            raise RecordsError(f"array {key!r} is of type {arrays[key].dtype}, but must hold plain numbers")
    return arrays


def received_arrays(content: RecordDict) -> dict[str, Arrays]:
    """Return all arrays that a message brought, by the name of their record."""
    return {name: arrays_of(record) for name, record in content.array_records.items()}


def answer_of(content: RecordDict, received: Mapping[str, Arrays]) -> Answer:
    """Read an app's answer; any record of another kind is refused."""
    legacy = next((kind for kind in ("fitres", "evaluateres") if f"{kind}.status" in content), None)
    if legacy is not None:
        return _legacy(content, legacy)
    if content.config_records:
        raise RecordsError(f"a ConfigRecord may not leave: {_names(content.config_records)}")
    if len(content.array_records) > 1:
        raise RecordsError(f"more than one ArrayRecord: {_names(content.array_records)}")
    if content.metric_records and list(content.metric_records) != [METRICS]:
        raise RecordsError(f"figures leave in one MetricRecord, {METRICS!r}; got {_names(content.metric_records)}")
    figures = _figures(content.metric_records[METRICS]) if content.metric_records else {}
    for name, record in content.array_records.items():
        if name not in received:
            raise RecordsError(f"arrays {name!r} were not in the message, which held: {_names(received)}")
        return Answer(arrays_of(record), name, figures)
    return Answer(None, None, figures)


def _legacy(content: RecordDict, kind: str) -> Answer:
    numbers = ("num_examples",) if kind == "fitres" else ("num_examples", "loss")
    wanted = {f"{kind}.{name}" for name in ("metrics", "status", *numbers)}
    wanted |= {f"{kind}.parameters"} if kind == "fitres" else set()
    if set(content) != wanted:
        raise RecordsError(f"a NumPyClient's answer has other records than Flower's: {_names(content)}")
    try:
        code = content.config_records[f"{kind}.status"]["code"]
        plain = {name: content.metric_records[f"{kind}.{name}"][name] for name in numbers}
        metrics = content.config_records[f"{kind}.metrics"]
        arrays = arrays_of(content.array_records[f"{kind}.parameters"]) if kind == "fitres" else None
    except KeyError as fault:
        raise RecordsError(f"a NumPyClient's answer lacks {fault}") from None
    if code != 0:
        raise RecordsError(f"the app says that it failed (code {code!r})")
    renamed = {COUNT if name == "num_examples" else name: value for name, value in plain.items()}
    if set(renamed) & set(metrics):
        raise RecordsError(f"the app's figures use names that Flower uses: {_names(set(renamed) & set(metrics))}")
    return Answer(arrays, f"{kind}.parameters" if arrays is not None else None, _figures({**renamed, **metrics}), kind)


def _figures(record: Mapping[str, Any]) -> Figures:
    """Return figures: finite numbers or short lists of them; a long list or a text could hold anything."""
    for name, value in record.items():
        numbers = value if isinstance(value, list) else [value]
        if len(numbers) > MOST:
            raise RecordsError(f"figure {name!r} is a list of {len(numbers)} numbers; at most {MOST} may leave")
        for number in numbers:
            if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number):
                raise RecordsError(f"figure {name!r} is not a finite number")
    return dict(record)


@dataclass(frozen=True)
class FlatLayout:
    """Where each floating-point array lies in a flat update.

    Attributes:
        keys: the arrays' keys, in the update's order.
        segments: their positions, as shields read them.
    """

    keys: tuple[str, ...]
    segments: tuple[Segment, ...]

    @classmethod
    def of(cls, arrays: Mapping[str, npt.NDArray[Any]], layout: Sequence[Segment] = ()) -> FlatLayout:
        """Lay out arrays in the order in which they came, or in that of a layout that they have to match.

        A layout's tensor is matched by its name, alone or after its player's ("encoder.0.weight"); arrays without
        names, as in NumPyClient apps, are matched in order. Arrays of whole numbers (counters) are left out.
        """
        keys = [key for key, array in arrays.items() if array.dtype.kind == "f"]
        if layout:
            return cls(_matched(arrays, keys, layout), tuple(layout))
        segments, start = [], 0
        for key in keys:
            segments.append(Segment("model", key, arrays[key].shape, start, key.endswith(_STATISTICS)))
            start = segments[-1].stop
        return cls(tuple(keys), tuple(segments))

    def update(self, received: Arrays, trained: Arrays) -> Tensor:
        """Return trained − received as one row, in single precision unless an array is of double precision."""
        kind = np.result_type(np.float32, *(received[key].dtype for key in self.keys))
        parts = [(trained[key].astype(kind) - received[key].astype(kind)).ravel() for key in self.keys]
        return torch.from_numpy(np.concatenate(parts))[None]

    def moved(self, received: Arrays, update: Tensor) -> Arrays:
        """Return received + update in the types, shapes and order received; arrays of whole numbers do not change."""
        flat = update[0].numpy()
        moved = dict(received)
        for key, segment in zip(self.keys, self.segments, strict=True):
            before = received[key]
            with np.errstate(over="ignore"):  # a number too large for its type is refused below
                after = before + flat[segment.start : segment.stop].reshape(before.shape)
                moved[key] = np.asarray(after, dtype=before.dtype)
            if not np.isfinite(moved[key]).all():
                raise RecordsError(f"array {key!r} would hold NaN or infinite numbers")
        return moved


def _matched(arrays: Mapping[str, npt.NDArray[Any]], keys: Sequence[str], layout: Sequence[Segment]) -> tuple[str, ...]:
    if len(keys) != len(layout):
        raise RecordsError(
            f"zoo: fitted for another layout: {len(keys)} arrays here, but {len(layout)} tensors in the zoo"
        )
    numbered = all(key.isdecimal() for key in arrays)
    one_player = len({segment.player for segment in layout}) == 1
    matched = []
    for index, segment in enumerate(layout):
        names = [f"{segment.player}.{segment.name}", *([segment.name] if one_player else [])]
        key = keys[index] if numbered else next((name for name in names if name in keys), None)
        if key is None or arrays[key].shape != segment.shape:
            expected = f"{names[-1]!r} of shape {segment.shape}"
            actual = "missing here" if key is None else f"of shape {arrays[key].shape} here"
            raise RecordsError(f"zoo: fitted for another layout: {expected} is {actual}; build one for this model")
        matched.append(key)
    return tuple(matched)


def check_same(received: Arrays, trained: Arrays) -> None:
    """Refuse arrays with other keys, shapes or types than those received."""
    if set(received) != set(trained):
        raise RecordsError(f"arrays with other keys than were received: {_names(set(received) ^ set(trained))}")
    for key, before in received.items():
        after = trained[key]
        if after.shape != before.shape or after.dtype != before.dtype:
            raise RecordsError(
                f"array {key!r} was received as {before.dtype} {before.shape} and would leave as {after.dtype} "
                f"{after.shape}"
            )


def content_of(answer: Answer, arrays: Arrays | None, figures: Figures) -> RecordDict:
    """Return new records for the server, in the form of the app's kind."""
    record = None if arrays is None else ArrayRecord({key: Array(array) for key, array in arrays.items()})
    if answer.legacy is None:
        content = RecordDict()
        if record is not None and answer.record is not None:
            content[answer.record] = record
        if figures:
            content[METRICS] = MetricRecord(dict(figures))
        return content
    kind, others = answer.legacy, dict(figures)
    content = RecordDict({f"{kind}.num_examples": MetricRecord({"num_examples": others.pop(COUNT)})})
    if kind == "evaluateres":
        content[f"{kind}.loss"] = MetricRecord({"loss": others.pop("loss")})
    if record is not None:
        content[f"{kind}.parameters"] = record
    content[f"{kind}.metrics"] = ConfigRecord(dict(others))
    content[f"{kind}.status"] = ConfigRecord({"code": 0, "message": "Success"})
    return content


def _names(names: Any) -> str:
    return ", ".join(sorted(map(repr, names))) or "none"
