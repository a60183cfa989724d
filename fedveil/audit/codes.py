"""Search for codes: what readings of scores add to a posterior that ordinary attackers have formed.

Symbols: s the attribute, q(s | y, ŷ, r) the ordinary attackers' posterior, v the cell that a reading shows. Somebody
who knows the reading corrects q cell by cell:

    q'(s) ∝ q(s) · (N_vs + a·p_s)/(E_vs + a·p_s),    N_vs records of s in cell v, E_vs = Σ q(s) over the cell's records,

so a reading that repeats what q has seen changes nothing: the leaves of a tree, the honest first decimals. Half of the
records learn the correction that is applied to the other half (`fedveil.attacks.fresh.halves`). Which readings are
used is decided within the half that learns: in each of its two parts all readings are ranked by how badly q is
calibrated in their cells (a χ² test), the best are tried on the other part, and the best of these is used if its gain
exceeds three standard errors. This is repeated, first with the readings that survive rounding to two decimals, then
with the fine ones, then with the order of the file; records that are scored never take part in the choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from fedveil.attacks.fresh import halves
from fedveil.audit.outputs import Outputs
from fedveil.audit.readings import Reading, order_of_equals, position_in_file, readings
from fedveil.core.arrays import FloatArray, IntArray
from fedveil.core.randomness import child_seed
from fedveil.data.attribute import Attribute

_FIRMNESS = 2.0
"""Pseudo-counts by which each cell's correction is smoothed towards none."""

_TRIED = 8
"""How many of the best-ranked readings are tried, for each part."""

_MOST_USED = 3
"""How many readings are used, at most, of those that survive rounding, and of the fine ones."""

_STANDARD_ERRORS = 3.0

_NEARLY_BEST = 0.9
"""Of readings that gain nearly as much as the best, the one with the fewest cells is used."""


@dataclass(frozen=True, eq=False)
class CodeSearch:
    """What readings add to a posterior.

    Attributes:
        before: (n, S), log-probabilities with all readings that survive rounding to two decimals.
        after: the same with fine readings and the order of the file.
        coarse: names of the readings in `before`.
        fine: names of the readings that `after` adds.
        ordered: whether the order of the file reveals s beyond the scores; False if scores were rounded for the audit.
    """

    before: FloatArray
    after: FloatArray
    coarse: tuple[str, ...]
    fine: tuple[str, ...]
    ordered: bool


@dataclass(eq=False)
class _Side:
    """One half of the records learns, the other is scored; both are corrected along the way."""

    codes: IntArray
    log_posterior: FloatArray
    learns: IntArray
    parts: tuple[IntArray, IntArray]
    used: list[str] = field(default_factory=list)

    def use_best(self, candidates: Sequence[Reading]) -> bool:
        """Correct the posterior by the best reading; return whether any is good enough."""
        tried: set[int] = set()
        for part in self.parts:
            misfits = _misfits(candidates, self.codes[part], np.exp(self.log_posterior[part]), part)
            tried.update(np.argsort(-misfits)[:_TRIED].tolist())
        gained: dict[int, float] = {}
        for index in sorted(tried):
            gains = self.gains(candidates[index])
            if gains.mean() > _STANDARD_ERRORS * gains.std() / np.sqrt(len(gains)):
                gained[index] = float(gains.mean())
        if not gained:
            return False
        nearly_best = [index for index, gain in gained.items() if gain >= _NEARLY_BEST * max(gained.values())]
        best = candidates[min(nearly_best, key=lambda index: candidates[index].size)]
        self.correct(best)
        self.used.append(best.name)
        return True

    def correct(self, reading: Reading) -> None:
        """Correct the posterior of all records by what the learning half shows."""
        self.log_posterior = _corrected(reading, self.codes, self.log_posterior, self.learns, slice(None))

    def gains(self, reading: Reading) -> FloatArray:
        """Return each learning record's gain in nats, corrected by the part that does not hold it."""
        gains = []
        for learns, tried in (self.parts, self.parts[::-1]):
            corrected = _corrected(reading, self.codes, self.log_posterior, learns, tried)
            truth = np.arange(len(tried)), self.codes[tried]
            gains.append(corrected[truth] - self.log_posterior[tried][truth])
        return np.concatenate(gains)


def search_codes(
    outputs: Outputs, secret: Attribute, log_posterior: FloatArray, half: IntArray, seed: int = 0
) -> CodeSearch:
    """Search the released scores for codes.

    Args:
        outputs: the released scores.
        secret: s.
        log_posterior: (n, S), log q, for each record learned from the half that does not hold it.
        half: 0 or 1 for each record.
        seed: of the parts within halves.
    """
    offered = readings(outputs)
    coarse, fine = ([reading for reading in offered if reading.fine == is_fine] for is_fine in (False, True))
    before, after = np.empty_like(log_posterior), np.empty_like(log_posterior)
    names: tuple[list[str], list[str]] = [], []
    ordered = False
    for scored in (0, 1):
        learns = np.flatnonzero(half != scored)
        groups = None if outputs.groups is None else outputs.groups[learns]
        part = halves(secret.codes[learns], groups, child_seed(seed, "codes", secret.name, scored))
        side = _Side(secret.codes, log_posterior, learns, (learns[part == 0], learns[part == 1]))
        _use(side, coarse)
        before[half == scored] = side.log_posterior[half == scored]
        names[0].extend(side.used)
        side.used = []
        _use(side, fine)
        ordered |= outputs.decimals is None and _use_order(side, outputs)
        after[half == scored] = side.log_posterior[half == scored]
        names[1].extend(side.used)
    coarse_names, fine_names = (tuple(dict.fromkeys(used)) for used in names)
    return CodeSearch(before, after, coarse_names, fine_names, ordered)


def _use(side: _Side, candidates: Sequence[Reading]) -> None:
    for _ in range(_MOST_USED):
        if not candidates or not side.use_best(candidates):
            return


def _use_order(side: _Side, outputs: Outputs) -> bool:
    """Read the order of records with equal scores; return whether the file's order reveals s, whoever chose it.

    An auditor's own file may be sorted by s. The order of equal scores counts as a code only if it adds more to the
    position in the file than that reveals by itself.
    """
    order, position = order_of_equals(outputs), position_in_file(outputs)
    by_position = side.gains(position).mean()
    beyond_position = _Side(side.codes, side.log_posterior, side.learns, side.parts)
    beyond_position.correct(position)
    adds_more = order.size > 1 and beyond_position.gains(order).mean() > max(0.0, by_position)
    if adds_more and beyond_position.use_best([order]):
        side.correct(order)
        side.used.append(order.name)
        return True
    return _Side(side.codes, side.log_posterior, side.learns, side.parts).use_best([position, order])


def _misfits(candidates: Sequence[Reading], codes: IntArray, q: FloatArray, rows: IntArray) -> FloatArray:
    """Return how badly a posterior fits the cells of each reading: χ² as a standard normal (Wilson, Hilferty 1931)."""
    classes = q.shape[1]
    checked = range(1) if classes == 2 else range(classes)  # with two values, one misfit is the other's negative
    over = [(codes == code) - q[:, code] for code in checked]
    variances = [q[:, code] * (1 - q[:, code]) for code in checked]
    scale = (classes - 1) / len(over) if classes > 2 else 1.0
    totals, free = np.zeros(len(candidates)), np.zeros(len(candidates))
    for number, reading in enumerate(candidates):
        cells = reading.cells[rows]
        for difference, variance in zip(over, variances, strict=True):
            summed = np.bincount(cells, difference, minlength=reading.size)
            totals[number] += (summed**2 / (np.bincount(cells, variance, minlength=reading.size) + 0.5)).sum()
        free[number] = np.count_nonzero(np.bincount(cells)) * (classes - 1)
    spread = 2 / (9 * free)
    return np.asarray((np.cbrt(totals * scale / free) - (1 - spread)) / np.sqrt(spread), dtype=np.float64)


def _corrected(
    reading: Reading, codes: IntArray, log_posterior: FloatArray, learns: IntArray, rows: IntArray | slice
) -> FloatArray:
    """Return the posterior of some rows, corrected cell by cell as the learning rows show."""
    q, cells = np.exp(log_posterior[learns]), reading.cells[learns]
    classes = q.shape[1]
    shares = np.bincount(codes[learns], minlength=classes) / len(learns)
    observed = np.zeros((reading.size, classes))
    np.add.at(observed, (cells, codes[learns]), 1)
    expected = np.stack([np.bincount(cells, q[:, code], minlength=reading.size) for code in range(classes)], axis=1)
    firm = _FIRMNESS * shares
    shifted = log_posterior[rows] + np.log((observed + firm) / (expected + firm))[reading.cells[rows]]
    highest = shifted.max(axis=1, keepdims=True)
    return np.asarray(shifted - highest - np.log(np.exp(shifted - highest).sum(axis=1, keepdims=True)))
