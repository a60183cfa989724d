"""The whole map r = f(x, u): columns that stay, aligned one by one; all others as one code within strata of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fedveil.data.attribute import IntArray
from fedveil.transport.alignment import Alignment, Plausible
from fedveil.transport.codebook import squared
from fedveil.transport.columns import Column, FloatArray
from fedveil.transport.strata import Strata

_BLOCK = 8192
"""People whose costs are held in memory at once."""


@dataclass(frozen=True)
class Recipe:
    """How a chart is fitted; `fedveil.shields.Transport` explains each field."""

    keep: Mapping[str, float] = field(default_factory=dict)
    strength: float = 1.0
    codes: int = 300
    temperature: float = 0.05
    stay: float = 6.0
    least: int = 100
    questions: int = 100
    noise: float = 0.0
    crowd: int = 1
    weights: Mapping[str, float] = field(default_factory=dict)

    def share(self, column: Column) -> float:
        """Return how far a column that stays is aligned: nothing up to its own start, everything at strength 1."""
        start = next(start for name, start in self.keep.items() if name in column.names)
        return 1.0 if self.strength >= 1 else max(0.0, (self.strength - start) / (1 - start)) if start < 1 else 0.0

    def weight(self, column: Column, otherwise: float) -> float:
        """Return how much a coded column counts."""
        return next((weight for name, weight in self.weights.items() if name in column.names), otherwise)


@dataclass(frozen=True, eq=False)
class Kept:
    """A column that stays: where it stands, its strata, and how people are moved between its cells."""

    column: Column
    strata: Strata
    cost: Plausible
    alignment: Alignment | None


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
            if kept.alignment is not None:
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
                points = torch.from_numpy(
                    places_of(self.coded, [one[part] for one in coded], self.weights, len(codes[part]))
                ).float()
                cost = squared(points, self.centres)
                codes[part] = self.alignment.move(cost, strata[part], u[part], uniform[part])
            features = np.concatenate([column.features for column in self.coded])
            shown[:, features] = self.shown[codes]
        return Moved(shown, own, strata, codes)


def places_of(columns: Sequence[Column], cells: Sequence[IntArray], weights: FloatArray, people: int) -> FloatArray:
    """Return people's coordinates: those of their cells, a column's variance being its weight."""
    parts = [np.sqrt(w) * column.places[own] for column, own, w in zip(columns, cells, weights, strict=True) if w > 0]
    return np.hstack(parts) if parts else np.zeros((people, 1))
