"""A vendor's model file as a function from inputs to scores; nothing in the file is executed as code.

`.onnx` files run in onnxruntime on the CPU, `.pt2` files (`torch.export.save`) in an interpreter of ours: torch's own
loader unpickles, evaluates expressions and calls functions by name, all as the file says.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedveil.audit.outputs import not_probabilities
from fedveil.audit.reading import of_both
from fedveil.core.arrays import FloatArray
from fedveil.core.errors import InputError, nearest

Numbers = npt.NDArray[np.generic]

ADVICE = "export the model again, or give it as ONNX"


@dataclass(frozen=True)
class Port:
    """One input or output of a model.

    Attributes:
        name: its name in the file.
        dtype: numpy's name of its numbers; empty where it holds none that an audit could use.
        shape: its lengths, records first, None where any length will do; None for a port that states no shape.
    """

    name: str
    dtype: str
    shape: tuple[int | None, ...] | None


class ScoringModel(ABC):
    """A classifier in a file, with one input and one output chosen."""

    def __init__(self, path: Path, takes: Sequence[Port], gives: Sequence[Port], output: str = "") -> None:
        self.path = path
        if len(takes) != 1:
            names = ", ".join(port.name for port in takes)
            raise InputError(
                f"{path}: takes {len(takes)} inputs ({names}); an audit gives one; {ADVICE} with one input"
            )
        self.takes = takes[0]
        if not self.takes.dtype:
            raise InputError(f"{path}: its input {self.takes.name!r} takes no numbers; {ADVICE} with numeric input")
        self.gives = _chosen_output(path, gives, output)

    @abstractmethod
    def answers(self, x: Numbers) -> Numbers:
        """Return the chosen output for one batch, in the input's dtype and shape."""

    def scores(self, x: npt.ArrayLike, batch: int = 1024, *, raw: bool = False) -> FloatArray:
        """Return the scores (n, Y) of n records.

        A model with one score per record (the second class's probability or raw score) gets the first class's column
        beside it: 1 − p; or 0, where some value is no probability or `raw` says that none is. A model made for batches
        of one size gets such, the last one filled up.
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
                    f"a row for each; choose another by --output, or {ADVICE}"
                )
            parts.append(answer[: len(part)])
        return self._as_columns(np.concatenate(parts).astype(np.float64), raw)

    def _fitted(self, x: Numbers) -> Numbers:
        """Return the records in the model's shape and dtype, or say how they differ."""
        if x.dtype.kind not in "biuf" or x.ndim < 2 or not len(x):
            raise InputError(f"{self.path}: inputs must be numbers, (n, …) of n ≥ 1; got {x.dtype} of shape {x.shape}")
        if self.takes.shape is not None:
            wanted = self.takes.shape[1:]
            if not _agree(wanted, x.shape[1:]):
                size = int(np.prod([length or 0 for length in wanted]))
                if x.ndim > 2 or not wanted or x.shape[1] != size:
                    raise InputError(
                        f"{self.path}: takes {_in_words(wanted)} for each record (input {self.takes.name!r}), the data "
                        f"gives {_in_words(x.shape[1:])}; choose the columns by --features, or give other data"
                    )
                x = x.reshape(len(x), *[length or 0 for length in wanted])
        made = x.astype(self.takes.dtype)
        if made.dtype.kind in "iub" and not np.array_equal(made, x):
            row = int(np.flatnonzero((made != x).reshape(len(x), -1).any(axis=1))[0])
            raise InputError(
                f"{self.path}: takes {self.takes.dtype} numbers, row {row + 1} of the data holds others; "
                "give whole numbers in its range"
            )
        return made

    def _as_columns(self, scores: FloatArray, raw: bool) -> FloatArray:
        """Return (n, Y) scores; refuse what is not finite."""
        flat = scores.reshape(len(scores), -1)
        if scores.ndim > 2 and max(scores.shape[1:]) != flat.shape[1]:  # (n, Y, 1, 1) is as good as (n, Y)
            raise InputError(
                f"{self.path}: output {self.gives.name!r} holds {_in_words(scores.shape[1:])} for each record, not one "
                "score for each class; choose another by --output"
            )
        wrong = np.flatnonzero(~np.isfinite(flat).all(axis=1))
        if len(wrong):
            raise InputError(
                f"{self.path}: output {self.gives.name!r} is NaN or infinite for {len(wrong)} of {len(flat)} records "
                f"(first: row {wrong[0] + 1}); check the inputs' scale and order, or leave these rows out"
            )
        if flat.shape[1] == 1:
            flat = of_both(flat, raw or bool(((flat < 0) | (flat > 1)).any()))
        return flat


def read_model(path: str | Path, output: str = "") -> ScoringModel:
    """Read a model file by its ending, `.onnx` or `.pt2`; `output` chooses among several outputs."""
    path = Path(path)
    kinds: dict[str, Callable[[], Any]] = {".onnx": _onnx, ".pt2": _exported}
    if path.suffix.lower() not in kinds:
        raise InputError(
            f"{path}: not a model file by its name; give .onnx, or .pt2 of torch.export.save "
            "(pickled models could run code, and are not read)"
        )
    if not path.is_file():
        raise InputError(f"{path}: {'is a folder; give a file' if path.is_dir() else 'no such file; check the path'}")
    made: ScoringModel = kinds[path.suffix.lower()]()(path, output)
    return made


def scores_are_raw(scores: FloatArray) -> bool:
    """Whether scores are raw: they are not if every row is a distribution (rows sum to 1 within the tolerance).

    >>> scores_are_raw(np.array([[0.2, 0.8]])), scores_are_raw(np.array([[-0.2, 1.2]]))
    (False, True)
    """
    return not_probabilities(scores) is not None


def _onnx() -> Any:
    from fedveil.audit.onnx_model import OnnxModel

    return OnnxModel


def _exported() -> Any:
    from fedveil.audit.exported_program import ExportedProgram  # torch takes seconds to load

    return ExportedProgram


def _chosen_output(path: Path, gives: Sequence[Port], output: str) -> Port:
    """Return the output by its name, or the only one that holds floats: labels beside it are whole numbers."""
    named = {port.name: port for port in gives}
    if output:
        if output not in named:
            raise InputError(f"{path}: no output {output!r}: {nearest(output, named)}")
        chosen = [named[output]]
    else:
        chosen = [port for port in gives if port.dtype.startswith("float")]
    if len(chosen) > 1:
        raise InputError(f"{path}: has several outputs ({', '.join(named)}); choose one by --output")
    if not chosen or not chosen[0].dtype.startswith("float"):
        which = f"output {output!r} holds" if output else f"no output ({', '.join(named)}) holds"
        raise InputError(f"{path}: {which} {'no ' * bool(output)}scores (a tensor of floats); {ADVICE} with them")
    return chosen[0]


def _agree(wanted: Sequence[int | None], given: Sequence[int]) -> bool:
    return len(wanted) == len(given) and all(a in (None, b) for a, b in zip(wanted, given, strict=True))


def _in_words(shape: Sequence[int | None]) -> str:
    lengths = ["?" if length is None else str(length) for length in shape]
    return (
        f"{lengths[0]} number{'s' * (lengths[0] != '1')}" if len(lengths) == 1 else " × ".join(lengths) or "one number"
    )
