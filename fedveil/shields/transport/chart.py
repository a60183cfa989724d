"""The whole map r = f(x, u): columns that stay, aligned one by one; all others as one code within strata of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fedveil.core.arrays import FloatArray, IntArray
from fedveil.shields.transport.alignment import Alignment, Plausible
from fedveil.shields.transport.codebook import squared
from fedveil.shields.transport.columns import Column
from fedveil.shields.transport.common import Common
from fedveil.shields.transport.strata import Strata

_BLOCK = 8192
"""People whose costs are held in memory at once."""


@dataclass(frozen=True, eq=False)
class Kept:
    """A column that stays: where it stands, its strata, and how people are moved between its cells."""

    column: Column
    strata: Strata
    cost: Plausible | None = None
    alignment: Alignment | None = None


@dataclass(frozen=True, eq=False)
class Moved:
    """What a chart made of people: their records, the cells of columns that stay, strata and codes."""

    x: FloatArray
    kept: list[IntArray]
    strata: IntArray
    codes: IntArray


@dataclass(frozen=True, eq=False)
class Chart:
    """Fitted on training people; applied by a device to its own record and its own u.

    Attributes:
        kept: columns that stay, in the order they are aligned.
        coded: columns that are told by the code alone; features of no column stay 0.
        weights: how much each coded column counts.
        centres, shown: the codes' coordinates, and what is shown of each: the mean features of people nearest to it.
        releases, epsilon: how many counts were asked for, and ε at δ = 1e-5 of all of them.
        common: directions that columns have in common, further coordinates of people and codes.
    """

    kept: tuple[Kept, ...]
    coded: tuple[Column, ...]
    weights: FloatArray
    centres: Tensor
    shown: FloatArray
    strata: Strata
    alignment: Alignment
    releases: int
    epsilon: float
    common: Common | None = None

    def points(self, x: npt.NDArray[np.floating]) -> Tensor:
        """Return people's coordinates, by which codes are near or far."""
        cells = [column.cell(x) for column in self.coded]
        together = None if self.common is None else [column.cell(x) for column in self.common.columns]
        return torch.from_numpy(places_of(self.coded, cells, self.weights, len(x), self.common, together)).float()

    def move(self, x: npt.NDArray[np.floating], u: IntArray, generator: torch.Generator) -> Moved:
        """Return what is shown of these people; randomness comes from the device's generator."""
        people = len(x)
        own = [kept.column.cell(x) for kept in self.kept]
        coded = [column.cell(x) for column in self.coded]
        shown = np.zeros((people, x.shape[1]))
        for place, kept in enumerate(self.kept):
            before = own[place]
            uniform, pick = torch.rand(2, people, generator=generator, dtype=torch.float64)
            shown[:, kept.column.features] = x[:, kept.column.features]
            if kept.cost is not None and kept.alignment is not None:
                others = [*own[:place], *own[place + 1 :], *coded]
                strata = kept.strata.of(own[:place], people)
                cells = kept.alignment.move(kept.cost.cost(before, others), strata, u, uniform)
                moved = np.flatnonzero(cells != before)
                donors = kept.column.donors
                which = (pick.numpy()[moved] * donors.shape[1]).astype(np.int64)
                shown[np.ix_(moved, kept.column.features)] = donors[cells[moved], which]
                own[place] = cells
        strata = self.strata.of(own, people)
        codes = np.zeros(people, dtype=np.int64)
        if self.coded:
            uniform = torch.rand(people, generator=generator, dtype=torch.float64)
            for start in range(0, people, _BLOCK):
                part = slice(start, start + _BLOCK)
                cost = squared(self.points(x[part]), self.centres)
                codes[part] = self.alignment.move(cost, strata[part], u[part], uniform[part])
            features = np.concatenate([column.features for column in self.coded])
            shown[:, features] = self.shown[codes]
        return Moved(shown, own, strata, codes)


def places_of(
    columns: Sequence[Column],
    cells: Sequence[IntArray],
    weights: FloatArray,
    people: int,
    common: Common | None = None,
    together: Sequence[IntArray] | None = None,
) -> FloatArray:
    """Return people's coordinates: those of their cells, a column's variance being its weight, then common ones.

    Args:
        together: people's cells of the common directions' columns.
    """
    parts = [np.sqrt(w) * column.places[own] for column, own, w in zip(columns, cells, weights, strict=True) if w > 0]
    if common is not None and together is not None:
        parts.append(common.of(together, people))
    return np.hstack(parts) if parts else np.zeros((people, 1))
