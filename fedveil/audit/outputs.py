"""A classifier's outputs with the true labels, and what attackers see in the outputs.

Symbols: y the target with Y values, s a sensitive attribute, ŷ = argmax of the Y scores.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import numpy.typing as npt

from fedveil.core.arrays import FloatArray, IntArray
from fedveil.core.errors import InputError
from fedveil.data.attribute import Attribute

SUM_TOLERANCE = 1e-3
"""How far the sum of a record's probabilities may be from 1. With many classes it may be farther, since files often
have only three decimals."""

MOST_DECIMALS = 15
"""A probability has no more decimals that are its own: the rest is how computers store numbers."""

_SMALLEST = 1e-16
"""Smaller probabilities are raised to this, so that their logarithm stays finite."""

_LEAST_IN_CELL = 20
"""A combination of y and ŷ with fewer records than this gets no column."""


@dataclass(frozen=True, eq=False)
class Outputs:
    """What a classifier answered for n records, and what was true of them.

    Attributes:
        scores: (n, Y), in the order of y's values: raw scores (logits), or probabilities.
        raw: whether the scores are raw.
        y: the target; every record carries it.
        secrets: sensitive attributes by name; a record may lack one (`MISSING`).
        groups: for each record, the id of the person it comes from; None if every record is a different person.
        columns: names of the released score columns; a single name means that only the second class's score was
            released, and none that all were, without names.
        decimals: to how many decimals the probabilities were rounded for the audit; None if they were not.
    """

    scores: FloatArray
    raw: bool
    y: Attribute
    secrets: Mapping[str, Attribute]
    groups: IntArray | None = None
    columns: tuple[str, ...] = ()
    decimals: int | None = None

    def __post_init__(self) -> None:
        scores = np.asarray(self.scores, dtype=np.float64)
        if scores.ndim != 2 or scores.shape[1] != len(self.y.values) or scores.shape[1] < 2:
            raise InputError(
                f"outputs: {self.y.name!r} has {len(self.y.values)} values, so scores must be (n, Y) with that many "
                f"columns and at least two, got shape {scores.shape}"
            )
        if not np.isfinite(scores).all():
            row = int(np.flatnonzero(~np.isfinite(scores).all(axis=1))[0])
            raise InputError(f"outputs: scores hold NaN or infinite values (first in row {row + 1}); remove that row")
        if not self.y.known.all():
            row = int(np.flatnonzero(~self.y.known)[0])
            raise InputError(f"outputs: {self.y.name!r} is missing in row {row + 1}; remove rows without a target")
        lengths = {f"attribute {name!r}": len(secret) for name, secret in self.secrets.items()}
        lengths |= {"target": len(self.y)} | ({} if self.groups is None else {"groups": len(self.groups)})
        for what, length in lengths.items():
            if length != len(scores):
                raise InputError(f"outputs: {what} has {length} rows, scores have {len(scores)}; they must match")
        object.__setattr__(self, "scores", scores)

    @classmethod
    def checked(
        cls,
        scores: npt.ArrayLike,
        raw: bool,
        y: Attribute,
        secrets: Mapping[str, Attribute],
        groups: IntArray | None = None,
    ) -> Self:
        """Return outputs; scores that are neither raw nor probabilities are refused.

        >>> y = Attribute.from_column("y", [0, 1])
        >>> Outputs.checked([[0.9, 0.1], [0.5, 0.4]], False, y, {})
        Traceback (most recent call last):
        fedveil.core.errors.InputError: outputs: the probabilities in row 2 sum to 0.9, not 1; correct them or set raw
        """
        outputs = cls(np.asarray(scores, dtype=np.float64), raw, y, secrets, groups)
        fault = None if raw else not_probabilities(outputs.scores)
        if fault is not None:
            raise InputError(f"outputs: {fault}; correct them or set raw")
        return outputs

    def __len__(self) -> int:
        return len(self.scores)

    @property
    def soft(self) -> FloatArray:
        """Probabilities: the softmax of raw scores, or the scores divided by their sum."""
        if not self.raw:
            return np.asarray(self.scores / self.scores.sum(axis=1, keepdims=True), dtype=np.float64)
        powers = np.exp(self.scores - self.scores.max(axis=1, keepdims=True))
        return np.asarray(powers / powers.sum(axis=1, keepdims=True), dtype=np.float64)

    @property
    def predicted(self) -> IntArray:
        """ŷ: the code with the highest score; the first of equal ones."""
        return np.asarray(self.scores.argmax(axis=1), dtype=np.int64)

    @property
    def entropies(self) -> FloatArray:
        """H of each record's probabilities, in bits.

        >>> y = Attribute.from_column("y", [0, 1])
        >>> Outputs(np.array([[0.5, 0.5], [1.0, 0.0]]), False, y, {}).entropies.tolist()
        [1.0, 0.0]
        """
        soft = self.soft
        bits = np.abs(soft * np.log2(np.where(soft > 0, soft, 1.0)))  # 0 log 0 = 0; never −0
        return np.asarray(bits.sum(axis=1), dtype=np.float64)

    def take(self, rows: npt.NDArray[np.integer] | npt.NDArray[np.bool_]) -> Self:
        """Return the outputs of some records."""
        return replace(
            self,
            scores=self.scores[rows],
            y=self.y.take(rows),
            secrets={name: secret.take(rows) for name, secret in self.secrets.items()},
            groups=None if self.groups is None else self.groups[rows],
        )

    def rounded(self, decimals: int) -> Self:
        """Return the outputs with probabilities rounded to this many decimals: what would be left of finer codes.

        Raw scores become probabilities first. Of two classes, the first has what the second leaves.

        >>> y = Attribute.from_column("y", [0, 1])
        >>> Outputs(np.array([[0.8764, 0.1236], [0.5, 0.5]]), False, y, {}).rounded(2).scores.tolist()
        [[0.88, 0.12], [0.5, 0.5]]
        """
        if not MOST_DECIMALS >= decimals >= 1:
            raise InputError(f"outputs: round to 1 to {MOST_DECIMALS} decimals of probabilities, got {decimals}")
        soft = np.round(self.soft, decimals)
        if not soft.any(axis=1).all():
            row = int(soft.any(axis=1).argmin()) + 1
            raise InputError(f"outputs: all scores of row {row} round to 0 at {decimals} decimals; keep more decimals")
        if soft.shape[1] == 2:
            soft[:, 0] = np.round(1 - soft[:, 1], decimals)
        return replace(self, scores=soft, raw=False, decimals=decimals)

    @property
    def released(self) -> dict[str, FloatArray]:
        """The released score columns by name, as numbers."""
        if len(self.columns) == 1:
            return {self.columns[0]: self.scores[:, -1]}
        names = self.columns or tuple(f"score {value}" for value in self.y.values)
        return dict(zip(names, self.scores.T, strict=True))


def not_probabilities(scores: FloatArray) -> str | None:
    """Describe the first row that is not a distribution; None if every row is one.

    >>> not_probabilities(np.array([[0.2, 0.8], [-3.0, 4.0]]))
    'row 2 holds -3, which is no probability'
    """
    outside = (scores < 0) | (scores > 1 + SUM_TOLERANCE)
    if outside.any():
        row, column = map(int, np.argwhere(outside)[0])
        return f"row {row + 1} holds {scores[row, column]:.6g}, which is no probability"
    rounded = max(SUM_TOLERANCE, 5e-4 * scores.shape[1])
    wrong = np.flatnonzero(np.abs(scores.sum(axis=1) - 1) > rounded + 1e-12)
    if len(wrong):
        return f"the probabilities in row {wrong[0] + 1} sum to {scores[wrong[0]].sum():.6g}, not 1"
    return None


def both_classes(scores: FloatArray, raw: bool) -> FloatArray:
    """Add the first class's column to a single column of the second class's scores; keep several columns unchanged."""
    if scores.shape[1] > 1:
        return scores
    return np.hstack([np.zeros_like(scores) if raw else 1 - scores, scores])


def visible_columns(outputs: Outputs) -> FloatArray:
    """Return what attackers see in the scores: raw scores (if given), probabilities, log-odds and entropy.

    Log-odds are included because a standardised probability cannot tell 1 − 1e-9 from 1 − 1e-6, and a server that
    looks closely can. Entropy is included because a linear attacker cannot compute it.
    """
    p = outputs.soft
    rest = np.stack([np.delete(p, k, axis=1).sum(axis=1) for k in range(p.shape[1])], axis=1)  # exact near 1: not 1 − p
    odds = np.log(np.maximum(p, _SMALLEST)) - np.log(np.maximum(rest, _SMALLEST))
    first = 1 if p.shape[1] == 2 else 0  # one of two probabilities determines the other
    columns = [p[:, first:], odds[:, first:], outputs.entropies[:, None]]
    return np.hstack([outputs.scores, *columns] if outputs.raw else columns)


def label_cells(outputs: Outputs) -> IntArray:
    """Number the combinations (y, ŷ): y·Y + ŷ."""
    return np.asarray(outputs.y.codes * len(outputs.y.values) + outputs.predicted, dtype=np.int64)


def label_columns(outputs: Outputs) -> FloatArray:
    """Return y, ŷ and their frequent combinations one-hot encoded, one column for each value."""
    size, cells = len(outputs.y.values), label_cells(outputs)
    frequent = np.flatnonzero(np.bincount(cells, minlength=size * size) >= _LEAST_IN_CELL)
    unit = np.eye(size)
    together = (cells[:, None] == frequent[None, :]).astype(np.float64)
    return np.hstack([unit[outputs.y.codes], unit[outputs.predicted], together])
