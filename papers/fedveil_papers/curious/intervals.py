"""An attacker that reads a binary secret from several intervals of one number.

Of a single output ŷ the paper's convex case lets the server look at one threshold (Malekzadeh et al., CCS 2021, §3.1).
A projection Θᵀx mixes both attributes: along it the groups (y, s) = (0, 0), (0, 1), (1, 0), (1, 1) follow each other,
as in eq. 1, and s changes at every border between them. One threshold cuts one of them; intervals cut all three.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedveil.core.arrays import FloatArray, IntArray
from fedveil.core.errors import InputError

_MOST_CELLS = 400
"""Between so many quantiles of the auxiliary outputs borders are looked for."""


@dataclass(frozen=True, eq=False)
class IntervalAttacker:
    """Guesses alternate from interval to interval: `first` below borders[0], 1 − `first` behind it, and so on."""

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
        """Fit the most accurate attacker of every number of intervals up to `most`; keep validation's favourite.

        Of equals the one with fewer intervals is kept. `most=2` is an attacker with one threshold of its own.
        """
        if most < 1:
            raise InputError(f"interval attacker: most must be at least 1 interval, got {most}")
        (outputs, codes), (held_out, true) = (_checked(*pair) for pair in (auxiliary, validation))
        found = [cls(borders, first) for borders, first in _best(outputs, codes, most)]
        return max(found, key=lambda one: (float(np.mean(one.guesses(held_out) == true)), -len(one.borders)))

    def guesses(self, outputs: npt.ArrayLike) -> IntArray:
        """Return the guessed codes, 0 or 1."""
        places = np.searchsorted(self.borders, np.asarray(outputs, dtype=np.float64), side="right")
        return np.asarray((self.first + places) % 2, dtype=np.int64)


def _best(outputs: FloatArray, codes: IntArray, most: int) -> list[tuple[FloatArray, int]]:
    """Return the most accurate labelling of the line with 1, 2, … `most` intervals, by dynamic programming."""
    edges = np.unique(np.quantile(outputs, np.linspace(0, 1, _MOST_CELLS + 1)[1:-1]))
    cells = np.searchsorted(edges, outputs, side="right")
    counts = np.stack([np.bincount(cells[codes == code], minlength=len(edges) + 1) for code in (0, 1)])
    right = np.concatenate(
        [np.zeros((2, 1)), np.cumsum(counts, axis=1)], axis=1
    )  # right[v, j]: cells before j called v
    found = []
    for first in (0, 1):
        merit = right[first]  # merit[j]: the best of so many intervals over the cells before j
        cuts: list[IntArray] = []
        found.append((_backwards(cuts, edges), first, merit[-1]))
        for pieces in range(2, most + 1):
            label = (first + pieces - 1) % 2
            gains = merit - right[label]  # cut before j: merit[j] + right[label, end] − right[label, j]
            best = np.maximum.accumulate(gains)
            at = np.maximum.accumulate(np.where(gains == best, np.arange(len(gains)), 0))
            merit, cuts = best + right[label], [*cuts, at]
            found.append((_backwards(cuts, edges), first, merit[-1]))
    ranked = [max(found[place::most], key=lambda one: one[2]) for place in range(most)]
    return [(borders, first) for borders, first, _ in ranked]


def _backwards(cuts: list[IntArray], edges: FloatArray) -> FloatArray:
    """Follow the cuts from the last cell back; a cut before cell j lies at the edge j − 1."""
    place, borders = len(edges) + 1, []
    for at in reversed(cuts):
        place = int(at[place])
        borders.append(-np.inf if place == 0 else np.inf if place > len(edges) else edges[place - 1])
    return np.array(borders[::-1], dtype=np.float64)


def _checked(outputs: npt.ArrayLike, codes: npt.ArrayLike) -> tuple[FloatArray, IntArray]:
    numbers, true = np.asarray(outputs, dtype=np.float64), np.asarray(codes, dtype=np.int64)
    if numbers.ndim != 1 or numbers.shape != true.shape or not len(true):
        raise InputError("interval attacker: needs one output and one code per record, and at least one record")
    if not np.isin(true, (0, 1)).all() or not np.isfinite(numbers).all():
        raise InputError("interval attacker: outputs must be finite and codes 0 or 1; check what was passed")
    return numbers, true
