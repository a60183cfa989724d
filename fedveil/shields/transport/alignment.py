"""One transported variable: within each stratum, every value of u is given the same shares of the cells.

This is done by entropic semi-discrete optimal transport: people have costs, cells have wanted shares, and each cell has
one potential. With D[i, k] the cost of cell k to person i, potentials b and temperature τ, a person goes to cell k with
probability ∝ exp((b_k − D[i, k]) / τ). Of all ways to fill the cells with the wanted shares, this has the least mean
cost minus τ times the mean entropy of the choice (Cuturi 2013; semi-discrete: Genevay et al. 2016). To find b, one asks
repeatedly how full each cell is and adds the logarithm of wanted over actual shares: all that this needs is one count
per cell and question.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fedveil.core.arrays import FloatArray, IntArray
from fedveil.shields.transport.columns import Column
from fedveil.shields.transport.counts import Counts, shares
from fedveil.shields.transport.pairs import Guess

_WARM = 6
"""Questions at each of the higher temperatures that lead to the wanted one."""
STRIDE = 1.6
"""Over-relaxation: steps longer than Sinkhorn's, below 2, reach the same potentials sooner (Thibault et al. 2017)."""
_LEAST = 1e-7
"""The share of a cell that should stay empty, so that its logarithm exists."""


def schedule(start: float, temperature: float, questions: int) -> list[float]:
    """Return the temperature of each question: halved from the spread of the costs down to the wanted one, then held.

    >>> schedule(0.4, 0.1, 2)
    [0.2, 0.2, 0.2, 0.2, 0.2, 0.2, 0.1, 0.1]
    """
    steps: list[float] = []
    level = start / 2
    while level > temperature * 1.0001:
        steps += [level] * _WARM
        level /= 2
    return steps + [temperature] * questions


def potentials(cost: Tensor, wanted: FloatArray, temperatures: list[float], counts: Counts) -> Tensor:
    """Return b after one question at each temperature; with more questions the cells' shares converge to `wanted`."""
    target = torch.log(torch.from_numpy(np.maximum(wanted, _LEAST)).to(cost))
    b = torch.zeros(cost.shape[1], dtype=cost.dtype)
    for temperature in temperatures:
        fill = torch.softmax((b - cost) / temperature, dim=1).sum(dim=0)
        if counts.noise:  # each person's row sums to 1, so its norm is at most 1
            fill = torch.from_numpy(counts.noised(fill.numpy())).to(cost)
            fill = fill.clamp_min(0.5)
        actual = torch.log((fill / fill.sum()).clamp_min(_LEAST))
        b = b + STRIDE * temperature * (target - actual).clamp(-20.0, 20.0)
    return b


def draw(cost: Tensor, b: Tensor, temperature: float, uniform: Tensor) -> Tensor:
    """Return a cell for each person from one uniform number each; b has one row for everybody or one per person."""
    chances = torch.softmax((b - cost) / temperature, dim=1).cumsum(dim=1)
    return (uniform.to(chances)[:, None] > chances).sum(dim=1).clamp(max=cost.shape[1] - 1)


@dataclass(frozen=True, eq=False)
class Alignment:
    """Potentials b[stratum, value of u, cell] at a temperature."""

    b: Tensor
    temperature: float

    def move(self, cost: Tensor, strata: IntArray, u: IntArray, uniform: Tensor) -> IntArray:
        """Return each person's new cell."""
        b = self.b[torch.from_numpy(strata), torch.from_numpy(u)]
        return draw(cost, b, self.temperature, uniform).numpy().astype(np.int64)


def align(
    cost: Tensor,
    cells: IntArray,
    strata: IntArray,
    u: IntArray,
    sizes: tuple[int, int],
    share: float,
    temperature: float,
    questions: int,
    counts: Counts,
    spread: float,
    crowd: int = 0,
) -> Alignment:
    """Fit the potentials on training people.

    Symbols: p_v(k), the share of cell k among people with value v in a stratum; q, its share among all people of the
    stratum. The wanted shares of value v are s·q + (1 − s)·p_v with s = `share`. The total variation between two values
    is thus multiplied by 1 − s, and 0 at s = 1.

    Args:
        cost: the cost of each cell to each person, (people, cells).
        cells: the cell that each person would have if nothing had to be hidden.
        sizes: the numbers of strata and of values of u.
        spread: the spread of costs that is known without looking at people; the first temperature if counts are noisy.
        crowd: a stratum uses at most (people of its rarest value of u) / crowd cells; 0 for all cells. These are the
            cells nearest to most people; anybody with another cell is counted with the cheapest of these.
    """
    count = cost.shape[1]
    b = torch.zeros(*sizes, count, dtype=cost.dtype)
    # Under noise only counts of people may be used, so the schedule starts from a spread computed without people.
    temperatures = schedule(spread if counts.noise else float(cost.std()), temperature, questions)
    counts.record(2 + len(temperatures))  # groups are disjoint, so each question counts a person once
    for stratum in range(sizes[0]):
        rows = [np.flatnonzero((strata == stratum) & (u == value)) for value in range(sizes[1])]
        ranked = [counts.noised(np.bincount(cells[part], minlength=count)) for part in rows]
        most_cells = max(1, int(min(fill.sum() for fill in ranked) / crowd)) if crowd else count
        used = np.sort(np.argsort(-np.sum(ranked, axis=0), kind="stable")[:most_cells])
        if len(used) < count:
            nearest = [used[cost[torch.from_numpy(part)][:, used].argmin(dim=1).numpy()] for part in rows]
        else:
            nearest = [cells[part] for part in rows]
        fills = [counts.noised(np.bincount(part, minlength=count)) for part in nearest]
        if len(used) < count:
            fills = [np.where(np.isin(np.arange(count), used), fill, 0.0) for fill in fills]
        common = shares(np.sum([np.maximum(fill, 0.0) for fill in fills], axis=0))
        for value, part in enumerate(rows):
            if len(part) or counts.noise:
                wanted = share * common + (1 - share) * shares(fills[value])
                b[stratum, value] = potentials(cost[torch.from_numpy(part)], wanted, temperatures, counts)
    return Alignment(b, temperature)


class Plausible:
    """The cost of another cell of one column: how far away it is, and how implausible the rest of the record makes it.

    D[i, k] = stay·d(k_i, k) − log p(k | the other columns' cells), by naive Bayes from counts of pairs. d is 0 for the
    person's present cell; for other cells it is 1 plus their distance in order. So the people who are moved are those
    who might as well have had the other value.
    """

    def __init__(self, stay: float, column: Column, guess: Guess) -> None:
        self.stay, self.column, self.guess = stay, column, guess
        index = np.arange(column.cells)
        distance = np.abs(index[:, None] - index) / max(column.cells - 1, 1) if column.edges is not None else 0.0
        self.apart = np.where(index[:, None] == index, 0.0, 1.0 + distance)

    @classmethod
    def learn(
        cls, stay: float, column: Column, cells: IntArray, others: list[IntArray], sizes: list[int], counts: Counts
    ) -> Plausible:
        """Count pairs of cells on training people: one question for each other column, and one for the column itself.

        `sizes` holds the number of cells of each other column.
        """
        counts.record(1 + len(others))
        alone = counts.noised(np.bincount(cells, minlength=column.cells))
        tables = []
        for other, size in zip(others, sizes, strict=True):
            pairs = counts.noised(np.bincount(cells * size + other, minlength=column.cells * size))
            tables.append(np.maximum(pairs.reshape(column.cells, size), 0.0))
        return cls(stay, column, Guess.learn(alone, tables))

    def cost(self, cells: IntArray, others: list[IntArray]) -> Tensor:
        """Return D for some people."""
        return torch.from_numpy(self.stay * self.apart[cells] - self.guess.log_chances(others, len(cells))).float()
