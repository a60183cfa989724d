"""What the rest of a record makes of one column: naive Bayes, from counts of pairs alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedveil.core.arrays import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Guess:
    """p(k | other columns' cells) ∝ exp(prior[k] + Σ_o logs[o][k, cell of o]).

    Attributes:
        prior: logarithms of the column's own counts.
        logs: for each other column, log p(its cell | k), smoothed towards the cell's share by half a person each.
    """

    prior: FloatArray
    logs: tuple[FloatArray, ...]

    @classmethod
    def learn(cls, own: FloatArray, pairs: Sequence[FloatArray]) -> Guess:
        """Make a guess from counts of the column's cells, and of its cells with those of each other column."""
        logs = []
        for table in pairs:
            size = table.shape[1]
            smooth = table + 0.5 * size * (table.sum(axis=0) + 1e-3) / (table.sum() + 1e-3 * size)
            logs.append(np.log(smooth / smooth.sum(axis=1, keepdims=True)))
        return cls(np.log(np.maximum(own, 0.0) + 1.0), tuple(logs))

    def log_chances(self, others: Sequence[IntArray], people: int) -> FloatArray:
        """Return log p of each cell for some people; another column's cell that no training person had says nothing."""
        score = np.tile(self.prior, (people, 1))
        for log, other in zip(self.logs, others, strict=True):
            score += np.where((other < log.shape[1])[:, None], log[:, np.minimum(other, log.shape[1] - 1)].T, 0.0)
        score -= np.logaddexp.reduce(score, axis=1, keepdims=True)
        return score
