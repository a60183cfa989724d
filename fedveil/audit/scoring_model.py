"""A classifier with one input and one output of scores: what an audit asks of a model, whatever file it comes from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fedveil.audit.outputs import both_classes, not_probabilities
from fedveil.audit.percent import from_percent, refuse_percent
from fedveil.core.arrays import FloatArray
from fedveil.core.errors import InputError, nearest

Numbers = npt.NDArray[np.generic]

ADVICE = "export the model again, or give it as ONNX"


@dataclass(frozen=True)
class Port:
    """One input or output of a model.

    Attributes:
        name: its name in the file.
        dtype: numpy's name for the type of its numbers; empty if an audit cannot use them.
        shape: its lengths, records first, None for a length that may vary; None if the file states no shape.
    """

    name: str
    dtype: str
    shape: tuple[int | None, ...] | None


class ScoringModel(ABC):
    """A classifier in a file, with one input and the chosen output."""

    def __init__(self, path: Path, takes: Sequence[Port], gives: Sequence[Port], output: str = "") -> None:
        self.path = path
        if len(takes) != 1:
            names = ", ".join(port.name for port in takes)
            raise InputError(
                f"{path}: takes {len(takes)} inputs ({names}), and an audit can give only one; {ADVICE} with one input"
            )
        self.takes = takes[0]
        if not self.takes.dtype:
            raise InputError(f"{path}: its input {self.takes.name!r} is not numeric; {ADVICE} with numeric input")
        self.gives = _chosen_output(path, gives, output)

    @abstractmethod
    def answers(self, x: Numbers) -> Numbers:
        """Return the chosen output for one batch, in the input's dtype and shape."""

    def scores(self, x: npt.ArrayLike, batch: int = 1024, *, raw: bool = False, percent: bool = False) -> FloatArray:
        """Return the scores (n, Y) of n records; scores in per cent become probabilities.

        If a model has one score per record (the second class's probability or raw score), the first class's column is
        added: 1 − p, or 0 if some value is not a probability or `raw` says that none is. A model that was exported for
        one batch size receives batches of that size; the last one is padded.
        """
        inputs = self._fitted(np.asarray(x))
        fixed = self.takes.shape[0] if self.takes.shape else None
        size = fixed or batch
        parts = []
        for start in range(0, len(inputs), size):
            part = inputs[start : start + size]
            filled = np.concatenate([part, np.repeat(part[-1:], fixed - len(part), axis=0)]) if fixed else part
            answer = np.asarray(self.answers(filled))
            if answer.ndim == 0 or len(answer) != len(filled):
                raise InputError(
                    f"{self.path}: output {self.gives.name!r} has shape {answer.shape} for {len(filled)} records, not "
                    f"a row for each; choose another with --output, or {ADVICE}"
                )
            parts.append(answer[: len(part)])
        return self._as_columns(np.concatenate(parts).astype(np.float64), raw, percent)

    def _fitted(self, x: Numbers) -> Numbers:
        """Return the records in the model's shape and dtype; the error for other records says how they differ."""
        if x.dtype.kind not in "biuf" or x.ndim < 2 or not len(x):
            raise InputError(f"{self.path}: inputs must be numbers, (n, …) of n ≥ 1; got {x.dtype} of shape {x.shape}")
        if self.takes.shape is not None:
            wanted = self.takes.shape[1:]
            if not _agree(wanted, x.shape[1:]):
                size = int(np.prod([length or 0 for length in wanted]))
                if x.ndim > 2 or not wanted or x.shape[1] != size:
                    raise InputError(
                        f"{self.path}: takes {_in_words(wanted)} for each record (input {self.takes.name!r}), the data "
                        f"gives {_in_words(x.shape[1:])}; choose the columns with --features, or give other data"
                    )
                x = x.reshape(len(x), *[length or 0 for length in wanted])
        converted = x.astype(self.takes.dtype)
        if converted.dtype.kind in "iub" and not np.array_equal(converted, x):
            row = int(np.flatnonzero((converted != x).reshape(len(x), -1).any(axis=1))[0])
            raise InputError(
                f"{self.path}: takes {self.takes.dtype} numbers, but row {row + 1} of the data holds other numbers; "
                "give whole numbers in its range"
            )
        return converted

    def _as_columns(self, scores: FloatArray, raw: bool, percent: bool) -> FloatArray:
        """Return (n, Y) scores; refuse what is not finite."""
        flat = scores.reshape(len(scores), -1)
        if scores.ndim > 2 and max(scores.shape[1:]) != flat.shape[1]:  # (n, Y, 1, 1) is as good as (n, Y)
            raise InputError(
                f"{self.path}: output {self.gives.name!r} holds {_in_words(scores.shape[1:])} for each record, not one "
                "score for each class; choose another with --output"
            )
        wrong = np.flatnonzero(~np.isfinite(flat).all(axis=1))
        if len(wrong):
            raise InputError(
                f"{self.path}: output {self.gives.name!r} is NaN or infinite for {len(wrong)} of {len(flat)} records "
                f"(first: row {wrong[0] + 1}); check the inputs' scale and order, or leave these rows out"
            )
        if percent:
            flat = from_percent(flat, f"{self.path}")
        elif flat.shape[1] == 1 and not raw:
            refuse_percent(flat, f"{self.path}")
        if flat.shape[1] == 1:
            flat = both_classes(flat, raw or bool(((flat < 0) | (flat > 1)).any()))
        return flat


def scores_are_raw(scores: FloatArray) -> bool:
    """Return whether scores are raw: they are unless every row is a distribution (sums to 1 within the tolerance).

    >>> scores_are_raw(np.array([[0.2, 0.8]])), scores_are_raw(np.array([[-0.2, 1.2]]))
    (False, True)
    """
    return not_probabilities(scores) is not None


def _chosen_output(path: Path, gives: Sequence[Port], output: str) -> Port:
    """Return the output of that name, or the only one that holds floats: predicted labels are whole numbers."""
    named = {port.name: port for port in gives}
    if output:
        if output not in named:
            raise InputError(f"{path}: no output {output!r}: {nearest(output, named)}")
        chosen = [named[output]]
    else:
        chosen = [port for port in gives if port.dtype.startswith("float")]
    if len(chosen) > 1:
        raise InputError(f"{path}: has several outputs ({', '.join(named)}); choose one with --output")
    if not chosen or not chosen[0].dtype.startswith("float"):
        which = f"output {output!r} holds" if output else f"no output ({', '.join(named)}) holds"
        raise InputError(f"{path}: {which} {'no ' * bool(output)}scores (a tensor of floats); {ADVICE} with them")
    return chosen[0]


def _agree(wanted: Sequence[int | None], shape: Sequence[int]) -> bool:
    return len(wanted) == len(shape) and all(a in (None, b) for a, b in zip(wanted, shape, strict=True))


def _in_words(shape: Sequence[int | None]) -> str:
    lengths = ["?" if length is None else str(length) for length in shape]
    return (
        f"{lengths[0]} number{'s' * (lengths[0] != '1')}" if len(lengths) == 1 else " × ".join(lengths) or "one number"
    )
