"""An attacker that reads a binary secret from several intervals of one number.

In the paper's convex case the server reads the single output ŷ by one threshold (Malekzadeh et al., CCS 2021, §3.1).
A projection Θᵀx mixes both attributes: along it the groups (y, s) = (0, 0), (0, 1), (1, 0), (1, 1) follow each other,
as in eq. 1, and s changes at every border between them. One threshold marks one border; intervals mark all three.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedveil.core.arrays import FloatArray, IntArray
from fedveil.core.errors import InputError

_MOST_CELLS = 400
"""Borders are sought between this many quantiles of the auxiliary outputs."""


@dataclass(frozen=True, eq=False)
class IntervalAttacker:
    """Guesses alternate from interval to interval: `first` below borders[0], 1 − `first` above it, and so on."""

    borders: FloatArray
    first: int

    @classmethod
    def fit(
        cls,
        auxiliary: tuple[npt.ArrayLike, npt.ArrayLike],
        validation: tuple[npt.ArrayLike, npt.ArrayLike],
        *,
        most: int = 6,
    ) -> IntervalAttacker:
        """Fit the most accurate attacker for each number of intervals up to `most`; keep the best on validation.

        Of equally good attackers the one with fewer intervals is kept. `most=2` is an attacker with one threshold.
        """
        if most < 1:
            raise InputError(f"interval attacker: most must be at least 1 interval, got {most}")
        (outputs, codes), (held_out, true) = (_checked(*pair) for pair in (auxiliary, validation))
        attackers = [cls(borders, first) for borders, first in _best(outputs, codes, most)]
        right = [float(np.mean(attacker.guesses(held_out) == true)) for attacker in attackers]
        best = max(range(len(attackers)), key=lambda index: (right[index], -len(attackers[index].borders)))
        return attackers[best]

    def guesses(self, outputs: npt.ArrayLike) -> IntArray:
        """Return the guessed codes, 0 or 1."""
        intervals = np.searchsorted(self.borders, np.asarray(outputs, dtype=np.float64), side="right")
        return np.asarray((self.first + intervals) % 2, dtype=np.int64)


def _best(outputs: FloatArray, codes: IntArray, most: int) -> list[tuple[FloatArray, int]]:
    """Return the most accurate labelling of the line with 1, 2, … `most` intervals, by dynamic programming."""
    edges = np.unique(np.quantile(outputs, np.linspace(0, 1, _MOST_CELLS + 1)[1:-1]))
    cells = np.searchsorted(edges, outputs, side="right")
    counts = np.stack([np.bincount(cells[codes == code], minlength=len(edges) + 1) for code in (0, 1)])
    # right[v, j]: how many records are guessed right if all cells before j are called v
    right = np.concatenate([np.zeros((2, 1)), np.cumsum(counts, axis=1)], axis=1)
    labellings = []
    for first in (0, 1):
        merit = right[first]  # merit[j]: the most right guesses with this many intervals over the cells before j
        cuts: list[IntArray] = []
        labellings.append((_borders(cuts, edges), first, merit[-1]))
        for pieces in range(2, most + 1):
            label = (first + pieces - 1) % 2
            gains = merit - right[label]  # cut before j: merit[j] + right[label, end] − right[label, j]
            best = np.maximum.accumulate(gains)
            at = np.maximum.accumulate(np.where(gains == best, np.arange(len(gains)), 0))
            merit, cuts = best + right[label], [*cuts, at]
            labellings.append((_borders(cuts, edges), first, merit[-1]))
    ranked = [max(labellings[number::most], key=lambda labelling: labelling[2]) for number in range(most)]
    return [(borders, first) for borders, first, _ in ranked]


def _borders(cuts: list[IntArray], edges: FloatArray) -> FloatArray:
    """Follow the cuts back from the last cell; a cut before cell j lies at the edge j − 1."""
    cell, borders = len(edges) + 1, []
    for at in reversed(cuts):
        cell = int(at[cell])
        borders.append(-np.inf if cell == 0 else np.inf if cell > len(edges) else edges[cell - 1])
    return np.array(borders[::-1], dtype=np.float64)


def _checked(outputs: npt.ArrayLike, codes: npt.ArrayLike) -> tuple[FloatArray, IntArray]:
    numbers, true = np.asarray(outputs, dtype=np.float64), np.asarray(codes, dtype=np.int64)
    if numbers.ndim != 1 or numbers.shape != true.shape or not len(true):
        raise InputError("interval attacker: needs one output and one code per record, and at least one record")
    if not np.isin(true, (0, 1)).all() or not np.isfinite(numbers).all():
        raise InputError("interval attacker: outputs must be finite and codes 0 or 1; check the arguments")
    return numbers, true
