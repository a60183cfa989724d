"""The interface of every attacker on vectors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from fedveil.core.arrays import FloatArray, FloatingArray, IntArray
from fedveil.core.randomness import numpy_generator
from fedveil.view import EVERY_OBSERVER, Capability


@dataclass(frozen=True, eq=False)
class Labelled:
    """Vectors (standardised by the panel) with the codes 0 … K−1 of the attribute.

    Attributes:
        vectors: (n, d), in single or double precision.
        codes: (n,).
    """

    vectors: FloatingArray
    codes: IntArray

    def __len__(self) -> int:
        return len(self.vectors)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} vectors of {self.vectors.shape[1]} numbers)"


class Attack(ABC):
    """An attacker that learns to infer an attribute from vectors.

    `fit` sees the attacker's own labelled vectors (auxiliary ones to learn from, validation ones for stopping or
    tuning), never the victims' labels. It must weight the classes evenly: attackers are judged by balanced accuracy,
    and an unweighted attacker looks harmless on an uneven attribute. `needs` names the capabilities that the
    observer must have; a view that grants fewer refuses the attack. The panel calibrates the scores on validation
    records afterwards, so they need not be probabilities. An attacker that leaves out vectors or columns says so in
    `notes` when it is fitted: a cap must not pass for a limit of what can be read.
    """

    name: ClassVar[str]
    needs: ClassVar[frozenset[Capability]] = EVERY_OBSERVER
    notes: tuple[str, ...] = ()
    """What `fit` left out of the data that it was given, in plain sentences; empty if it used everything."""

    def __init__(self, seed: int = 0, device: str = "auto") -> None:
        self.seed = seed
        self.device = device

    def __repr__(self) -> str:
        return f"{type(self).__name__}(seed={self.seed}, device={self.device!r})"

    @abstractmethod
    def fit(self, auxiliary: Labelled, validation: Labelled, classes: int) -> None:
        """Learn from the attacker's labelled vectors."""

    @abstractmethod
    def scores(self, vectors: FloatingArray) -> FloatArray:
        """Return an (n, K) array: log-probabilities, or any score that is higher for a likelier value."""

    def capped(self, data: Labelled, most: int, classes: int) -> Labelled:
        """Return at most `most` of the records, drawn evenly over the values; a note says if some are left out."""
        part = evenly(data, most, classes, numpy_generator(self.seed, "subsample"))
        if len(part) < len(data):
            self.notes = (*self.notes, f"learned from {len(part):,} of {len(data):,} vectors")
        return part


def log_probabilities(probabilities: npt.NDArray[np.floating]) -> FloatArray:
    """Return logarithms; a floor keeps those of zero, which trees may return, finite."""
    return np.log(np.clip(probabilities.astype(np.float64), 1e-4, 1.0))


def evenly(data: Labelled, most: int, classes: int, rng: np.random.Generator) -> Labelled:
    """Return at most `most` of the records, with as many of the rare classes as possible."""
    if len(data) <= most:
        return data
    counts = np.bincount(data.codes, minlength=classes)
    quota = np.zeros(classes, dtype=np.int64)
    remaining = most
    for rank, code in enumerate(np.argsort(counts)):
        quota[code] = min(counts[code], remaining // (classes - rank))
        remaining -= quota[code]
    rows = [rng.permutation(np.flatnonzero(data.codes == code))[: quota[code]] for code in range(classes)]
    selected = np.sort(np.concatenate(rows))
    return Labelled(data.vectors[selected], data.codes[selected])
