"""What every attacker on vectors must be able to do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from fedveil.core.arrays import FloatArray, IntArray
from fedveil.view import EVERY_OBSERVER, Capability


@dataclass(frozen=True, eq=False)
class Labelled:
    """Vectors (standardised by the panel) with the codes 0 … K−1 of the attribute."""

    vectors: FloatArray
    codes: IntArray

    def __len__(self) -> int:
        return len(self.vectors)


class Attack(ABC):
    """An attacker that learns to read an attribute out of vectors.

    `fit` sees the attacker's own labelled vectors (auxiliary to learn from, validation to stop or tune
    by), never the victims' labels. It must weigh the classes evenly: what it returns is judged by
    balanced accuracy, and an unweighted attacker on an uneven attribute looks harmless. `needs` names what an
    observer must have been granted; a view that grants less refuses the attack.
    The panel calibrates the scores on validation afterwards, so they need not be probabilities.
    """

    name: ClassVar[str]
    needs: ClassVar[frozenset[Capability]] = EVERY_OBSERVER

    def __init__(self, seed: int = 0, device: str = "auto") -> None:
        self.seed = seed
        self.device = device

    @abstractmethod
    def fit(self, auxiliary: Labelled, validation: Labelled, classes: int) -> None:
        """Learn from the attacker's labelled vectors."""

    @abstractmethod
    def scores(self, vectors: FloatArray) -> FloatArray:
        """Return an (n, K) array: log-probabilities, or any score that grows with belief."""


def log_probabilities(probabilities: npt.NDArray[np.floating]) -> FloatArray:
    """Take logarithms, with a floor that keeps a tree's certain zero finite."""
    return np.log(np.clip(probabilities.astype(np.float64), 1e-4, 1.0))


def evenly(data: Labelled, most: int, classes: int, rng: np.random.Generator) -> Labelled:
    """Keep at most so many records, rare classes first: they are what a weighted attacker needs."""
    if len(data) <= most:
        return data
    counts = np.bincount(data.codes, minlength=classes)
    quota = np.zeros(classes, dtype=np.int64)
    left = most
    for rank, code in enumerate(np.argsort(counts)):
        quota[code] = min(counts[code], left // (classes - rank))
        left -= quota[code]
    rows = [rng.permutation(np.flatnonzero(data.codes == code))[: quota[code]] for code in range(classes)]
    kept = np.sort(np.concatenate(rows))
    return Labelled(data.vectors[kept], data.codes[kept])
