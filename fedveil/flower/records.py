"""Flower's records ⇄ a flat update with its tensors' places; and the figures beside it.

Two kinds of apps: those of the Message API (one ArrayRecord, at most one MetricRecord, named "metrics"), and
NumPyClient ones, whose answers Flower writes as "fitres.…" and "evaluateres.…" records. What is put together here for
the server is new throughout: nothing of an app's answer leaves but the numbers that were looked at.
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
"""How many numbers one figure may have."""

_STATISTICS = ("running_mean", "running_var")


class RecordsError(InputError):
    """Records that are not what may leave: nothing is sent."""


@dataclass(frozen=True)
class Answer:
    """What an app would send.

    Attributes:
        arrays: its arrays, where it has some.
        record: the name of their record.
        figures: numbers by name; a NumPyClient's are called "num-examples" and "loss" here, too.
        legacy: "fitres" or "evaluateres" for a NumPyClient's, else None.
    """

    arrays: Arrays | None
    record: str | None = None
    figures: Figures = field(default_factory=dict)
    legacy: str | None = None


def arrays_of(record: ArrayRecord) -> Arrays:
    """Return a record's arrays; what is no array of numbers is refused."""
    found: Arrays = {}
    for key, own in record.items():
        try:
            found[key] = own.numpy()
        except Exception as fault:
            raise RecordsError(f"array {key!r} cannot be read ({type(fault).__name__})") from None
        if found[key].dtype.kind not in "fiub":
            raise RecordsError(f"array {key!r} is of type {found[key].dtype}, and has to be of plain numbers")
    return found


def came_with(content: RecordDict) -> dict[str, Arrays]:
    """Return all arrays that came with a message, by their record's name."""
    return {name: arrays_of(record) for name, record in content.array_records.items()}


def answer_of(content: RecordDict, came: Mapping[str, Arrays]) -> Answer:
    """Read an app's answer; any record that is not known is refused."""
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
        if name not in came:
            raise RecordsError(f"arrays {name!r} did not come with the message; there came: {_names(came)}")
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
        told = content.config_records[f"{kind}.metrics"]
        arrays = arrays_of(content.array_records[f"{kind}.parameters"]) if kind == "fitres" else None
    except KeyError as fault:
        raise RecordsError(f"a NumPyClient's answer lacks {fault}") from None
    if code != 0:
        raise RecordsError(f"the app says that it failed (code {code!r})")
    renamed = {COUNT if name == "num_examples" else name: value for name, value in plain.items()}
    if set(renamed) & set(told):
        raise RecordsError(f"the app's figures use Flower's own names: {_names(set(renamed) & set(told))}")
    return Answer(arrays, f"{kind}.parameters" if arrays is not None else None, _figures({**renamed, **told}), kind)


def _figures(record: Mapping[str, Any]) -> Figures:
    """Return figures: finite numbers, or a few of them; a long list or a text could hold anything."""
    for name, value in record.items():
        listed = value if isinstance(value, list) else [value]
        if len(listed) > MOST:
            raise RecordsError(f"figure {name!r} is a list of {len(listed)} numbers; at most {MOST} may leave")
        for own in listed:
            if isinstance(own, bool) or not isinstance(own, int | float) or not math.isfinite(own):
                raise RecordsError(f"figure {name!r} is no finite number")
    return dict(record)


@dataclass(frozen=True)
class Places:
    """Where each floating-point array lies in a flat update.

    Attributes:
        keys: the arrays' keys, in the update's order.
        segments: their places, as shields read them.
    """

    keys: tuple[str, ...]
    segments: tuple[Segment, ...]

    @classmethod
    def of(cls, arrays: Mapping[str, npt.NDArray[Any]], layout: Sequence[Segment] = ()) -> Places:
        """Lay out arrays: in the order in which they came, or in that of a layout that they have to match.

        A layout's tensor is found by its name, alone or behind its player's ("encoder.0.weight"); arrays without names
        of their own, as NumPyClient apps have them, are taken in order. Whole numbers (counters) have no place.
        """
        keys = [key for key, own in arrays.items() if own.dtype.kind == "f"]
        if layout:
            return cls(_matched(arrays, keys, layout), tuple(layout))
        segments, start = [], 0
        for key in keys:
            segments.append(Segment("model", key, arrays[key].shape, start, key.endswith(_STATISTICS)))
            start = segments[-1].stop
        return cls(tuple(keys), tuple(segments))

    def update(self, came: Arrays, reached: Arrays) -> Tensor:
        """Return reached − came as one row, in single precision unless an array is of double."""
        kind = np.result_type(np.float32, *(came[key].dtype for key in self.keys))
        parts = [(reached[key].astype(kind) - came[key].astype(kind)).ravel() for key in self.keys]
        return torch.from_numpy(np.concatenate(parts))[None]

    def moved(self, came: Arrays, update: Tensor) -> Arrays:
        """Return came + update with the types, shapes and order that came; whole numbers stay as they came."""
        flat = update[0].numpy()
        moved = dict(came)
        for key, segment in zip(self.keys, self.segments, strict=True):
            with np.errstate(over="ignore"):  # what is too large for its type is found below
                own = came[key] + flat[segment.start : segment.stop].reshape(came[key].shape)
                moved[key] = np.asarray(own, dtype=came[key].dtype)
            if not np.isfinite(moved[key]).all():
                raise RecordsError(f"array {key!r} would hold NaN or infinite numbers")
        return moved


def _matched(arrays: Mapping[str, npt.NDArray[Any]], keys: Sequence[str], layout: Sequence[Segment]) -> tuple[str, ...]:
    if len(keys) != len(layout):
        raise RecordsError(f"zoo: fitted for another layout: {len(keys)} arrays here and {len(layout)} tensors there")
    numbered = all(key.isdecimal() for key in arrays)
    alone = len({segment.player for segment in layout}) == 1
    found = []
    for place, segment in enumerate(layout):
        names = [f"{segment.player}.{segment.name}", *([segment.name] if alone else [])]
        key = keys[place] if numbered else next((name for name in names if name in keys), None)
        if key is None or arrays[key].shape != segment.shape:
            there = f"{names[-1]!r} of shape {segment.shape}"
            here = "missing here" if key is None else f"of shape {arrays[key].shape} here"
            raise RecordsError(f"zoo: fitted for another layout: {there} is {here}; build one for this model")
        found.append(key)
    return tuple(found)


def check_same(came: Arrays, reached: Arrays) -> None:
    """Refuse arrays with other keys, shapes or types than those that came."""
    if set(came) != set(reached):
        raise RecordsError(f"arrays with other keys than came: {_names(set(came) ^ set(reached))}")
    for key, own in came.items():
        if reached[key].shape != own.shape or reached[key].dtype != own.dtype:
            raise RecordsError(
                f"array {key!r} came as {own.dtype} {own.shape} and would leave as {reached[key].dtype} "
                f"{reached[key].shape}"
            )


def content_of(answer: Answer, arrays: Arrays | None, figures: Figures) -> RecordDict:
    """Return new records for the server, in the words of the app's kind."""
    record = None if arrays is None else ArrayRecord({key: Array(own) for key, own in arrays.items()})
    if answer.legacy is None:
        content = RecordDict()
        if record is not None and answer.record is not None:
            content[answer.record] = record
        if figures:
            content[METRICS] = MetricRecord(dict(figures))
        return content
    kind, left = answer.legacy, dict(figures)
    content = RecordDict({f"{kind}.num_examples": MetricRecord({"num_examples": left.pop(COUNT)})})
    if kind == "evaluateres":
        content[f"{kind}.loss"] = MetricRecord({"loss": left.pop("loss")})
    if record is not None:
        content[f"{kind}.parameters"] = record
    content[f"{kind}.metrics"] = ConfigRecord(dict(left))
    content[f"{kind}.status"] = ConfigRecord({"code": 0, "message": "Success"})
    return content


def _names(names: Any) -> str:
    return ", ".join(sorted(map(repr, names))) or "none"
