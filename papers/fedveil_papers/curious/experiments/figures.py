"""Figures over several runs: mean, deviation and interval, as text and as the JSON in which they are stored."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass
from functools import cache
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any, TypeVar, cast

from pydantic import TypeAdapter

from fedveil.core.figures import Estimate
from fedveil_papers.rows import Figure

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T")


@dataclass(frozen=True)
class RunFigure:
    """A number measured on test records, in one or in several runs.

    Attributes:
        estimate: its value; the mean over runs.
        low, high: its interval at 95%; for several runs, the lowest and the highest end.
        deviation: the standard deviation over runs; None for a single run.

    >>> print(RunFigure(0.8123, 0.8, 0.8251), RunFigure(0.8123, 0.8, 0.8251, 0.01))
    0.812 [0.800, 0.825] 0.812 ± 0.010 [0.800, 0.825]
    """

    estimate: float
    low: float
    high: float
    deviation: float | None = None

    @classmethod
    def of(cls, measured: Estimate) -> RunFigure:
        """Return the figure of a single run."""
        return cls(measured.estimate, measured.low, measured.high)

    def __str__(self) -> str:
        deviation = "" if self.deviation is None else f" ± {self.deviation:.3f}"
        return f"{self.estimate:.3f}{deviation} [{self.low:.3f}, {self.high:.3f}]"

    @property
    def in_row(self) -> Figure:
        """The figure in the form of the common rows, without the deviation."""
        return Figure(self.estimate, self.low, self.high)

    @property
    def percent(self) -> str:
        """The figure in percent: mean ± standard deviation over runs, or a single run's value with its interval.

        >>> RunFigure(0.8123, 0.8, 0.8251).percent
        '81.2 [80.0, 82.5]'
        """
        if self.deviation is not None:
            return f"{100 * self.estimate:.1f} ± {100 * self.deviation:.1f}"
        return f"{100 * self.estimate:.1f} [{100 * self.low:.1f}, {100 * self.high:.1f}]"


def over_runs(runs: Sequence[Sequence[T]]) -> list[T]:
    """Join the same row (a dataclass) of several runs, field by field.

    Figures and numbers are averaged; texts that differ are listed one after another.
    """
    return [
        type(rows[0])(**{part.name: _joined([getattr(row, part.name) for row in rows]) for part in fields(rows[0])})
        for rows in zip(*runs, strict=True)
    ]


def _joined(values: list[Any]) -> Any:
    first = values[0]
    if isinstance(first, RunFigure):
        points = [value.estimate for value in values]
        deviation = stdev(points) if len(points) > 1 else None
        return RunFigure(fmean(points), min(v.low for v in values), max(v.high for v in values), deviation)
    if all(value == first for value in values):
        return first
    if isinstance(first, str):
        return ", ".join(dict.fromkeys(values))
    return fmean(values)


def to_json(value: Any) -> Any:
    """Return dataclasses, however nested, as JSON objects; a single run's figures have no deviation."""
    if is_dataclass(value) and not isinstance(value, type):
        items = {part.name: to_json(getattr(value, part.name)) for part in fields(value)}
        return (
            {name: item for name, item in items.items() if item is not None} if isinstance(value, RunFigure) else items
        )
    if isinstance(value, Mapping):
        return {name: to_json(item) for name, item in value.items()}
    return [to_json(item) for item in value] if isinstance(value, list | tuple) else value


def from_json(kind: type[T], value: Any) -> T:
    """Return the dataclass (or list of dataclasses) that `to_json` has written; absent fields take their defaults."""
    adapter: TypeAdapter[T] = _adapter(cast("Hashable", kind))
    return adapter.validate_python(value)


@cache
def _adapter(kind: Any) -> Any:
    return TypeAdapter(kind)


def beyond_rows(figures: DataclassInstance, in_rows: Collection[str]) -> dict[str, Any]:
    """Return, as JSON values, what the common rows do not hold of figures: fields not named, and all deviations."""
    values = {field.name: getattr(figures, field.name) for field in fields(figures)}
    deviations = {name: value.deviation for name, value in values.items() if isinstance(value, RunFigure)}
    others = {name: asdict(figures)[name] for name in values if name not in deviations and name not in in_rows}
    return {**others, "deviations": deviations}
