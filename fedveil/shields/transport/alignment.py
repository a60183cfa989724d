"""One transported variable: within each stratum, every value of u is brought to the same shares of its cells."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fedveil.core.arrays import IntArray
from fedveil.shields.transport.columns import Column
from fedveil.shields.transport.counts import Counts, shares
from fedveil.shields.transport.guess import Guess
from fedveil.shields.transport.solver import draw, potentials, schedule


@dataclass(frozen=True, eq=False)
class Alignment:
    """Potentials b[stratum, value of u, cell] at a temperature."""

    b: Tensor
    temperature: float

    def move(self, cost: Tensor, strata: IntArray, u: IntArray, uniform: Tensor) -> IntArray:
        """Return each person's new cell."""
        own = self.b[torch.from_numpy(strata), torch.from_numpy(u)]
        return draw(cost, own, self.temperature, uniform).numpy().astype(np.int64)


def align(
    cost: Tensor,
    own: IntArray,
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

    Symbols: p_v(k) the share of cell k = `own` among people of value v in a stratum; q that among all its people;
    the wanted shares of value v are s·q + (1 − s)·p_v with s = `share`. So two values differ in total variation by
    (1 − s) times what they did, and at s = 1 not at all.

    Args:
        cost: what each cell costs each person.
        own: the cell a person would have if nothing were to be hidden.
        sizes: how many strata and values there are.
        spread: of costs, as far as it is known without people; the first temperature where counts are noised.
        crowd: a stratum uses no more cells than its rarest value of u has people over this; 0 for all cells. It uses
            those that most people are nearest to; whoever had another is counted with the cheapest of these.
    """
    cells = cost.shape[1]
    b = torch.zeros(*sizes, cells, dtype=cost.dtype)
    # Under noise nothing of people may enter but counts: the schedule then starts from a spread that knows none.
    temperatures = schedule(spread if counts.noise else float(cost.std()), temperature, questions)
    counts.asked(2 + len(temperatures))  # groups are disjoint: each question is put to a person once
    for stratum in range(sizes[0]):
        rows = [np.flatnonzero((strata == stratum) & (u == value)) for value in range(sizes[1])]
        ranked = [counts.noised(np.bincount(own[part], minlength=cells)) for part in rows]
        most = max(1, int(min(one.sum() for one in ranked) / crowd)) if crowd else cells
        used = np.sort(np.argsort(-np.sum(ranked, axis=0), kind="stable")[:most])
        if len(used) < cells:
            nearest = [used[cost[torch.from_numpy(part)][:, used].argmin(dim=1).numpy()] for part in rows]
        else:
            nearest = [own[part] for part in rows]
        seen = [counts.noised(np.bincount(one, minlength=cells)) for one in nearest]
        if len(used) < cells:
            seen = [np.where(np.isin(np.arange(cells), used), one, 0.0) for one in seen]
        common = shares(np.sum([np.maximum(one, 0.0) for one in seen], axis=0))
        for value, part in enumerate(rows):
            if len(part) or counts.noise:
                wanted = share * common + (1 - share) * shares(seen[value])
                b[stratum, value] = potentials(cost[torch.from_numpy(part)], wanted, temperatures, counts)
    return Alignment(b, temperature)


class Plausible:
    """Cost of another cell of one column: how far it is, and how implausible the rest of the record makes it.

    D[i, k] = stay·d(k_i, k) − log p(k | the other columns' cells), by naive Bayes from counts of pairs; d is 0 for the
    own cell, and for others 1 plus their distance in order. People are moved who could as well have been there.
    """

    def __init__(self, stay: float, column: Column, guess: Guess) -> None:
        self.stay, self.column, self.guess = stay, column, guess
        place = np.arange(column.cells)
        apart = np.abs(place[:, None] - place) / max(column.cells - 1, 1) if column.edges is not None else 0.0
        self.apart = np.where(place[:, None] == place, 0.0, 1.0 + apart)

    @classmethod
    def learn(
        cls, stay: float, column: Column, own: IntArray, others: list[IntArray], sizes: list[int], counts: Counts
    ) -> Plausible:
        """Count pairs of cells on training people: one question for each other column, and one for the column.

        `sizes` says how many cells each other column has.
        """
        counts.asked(1 + len(others))
        alone = counts.noised(np.bincount(own, minlength=column.cells))
        tables = []
        for other, size in zip(others, sizes, strict=True):
            pairs = counts.noised(np.bincount(own * size + other, minlength=column.cells * size))
            tables.append(np.maximum(pairs.reshape(column.cells, size), 0.0))
        return cls(stay, column, Guess.learn(alone, tables))

    def cost(self, own: IntArray, others: list[IntArray]) -> Tensor:
        """Return D for some people."""
        return torch.from_numpy(self.stay * self.apart[own] - self.guess.log_chances(others, len(own))).float()
