"""A table's map r = f(x, u): columns that stay are aligned one by one; all others become one code within strata.

`Chart` is the map as a device applies it; `fit_chart` fits it on training people, from counts alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fedveil.core.arrays import FloatArray, IntArray
from fedveil.core.randomness import numpy_generator
from fedveil.shields.transport.alignment import Alignment, Plausible, align
from fedveil.shields.transport.codebook import far_apart, learn_codebook, squared
from fedveil.shields.transport.columns import Column, Strata, learn_columns, learn_strata
from fedveil.shields.transport.counts import Counts
from fedveil.shields.transport.pairs import Common, Pairs, aloof, importance, learn_common
from fedveil.shields.transport.settings import MapSettings

_BLOCK = 8192
"""How many people's costs are held in memory at once."""
_PLAUSIBLE_TEMPERATURE = 0.3
"""The least temperature for columns that stay, whose costs are logarithms of probabilities."""


@dataclass(frozen=True, eq=False)
class Kept:
    """A column that stays: its strata, and how people are moved between its cells."""

    column: Column
    strata: Strata
    cost: Plausible | None = None
    alignment: Alignment | None = None


@dataclass(frozen=True, eq=False)
class Moved:
    """What a map shows of people: their records, the cells of columns that stay, strata and codes."""

    x: FloatArray
    kept: list[IntArray]
    strata: IntArray
    codes: IntArray


@dataclass(frozen=True, eq=False)
class Chart:
    """A map fitted on training people, which a device applies to its record and the record's u.

    Attributes:
        kept: columns that stay, in the order in which they are aligned.
        coded: columns that are shown only through the code; features that belong to no column stay 0.
        weights: how much each coded column counts.
        centres, shown: the codes' coordinates, and what is shown for each code: the mean features of the people
            nearest to it.
        strata: the strata within which codes are drawn.
        alignment: potentials by stratum, value of u and code.
        releases, epsilon: how many counts were asked for, and the ε at δ = 1e-5 of all of them.
        common: directions that columns have in common; they give further coordinates of people and codes.
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
        """Return people's coordinates, which decide how near each code is."""
        cells = [column.cell(x) for column in self.coded]
        common_cells = None if self.common is None else [column.cell(x) for column in self.common.columns]
        return torch.from_numpy(
            coordinates_of(self.coded, cells, self.weights, len(x), self.common, common_cells)
        ).float()

    def move(self, x: npt.NDArray[np.floating], u: IntArray, generator: torch.Generator) -> Moved:
        """Return what is shown of these people; randomness comes from the device's generator."""
        people = len(x)
        kept_cells = [kept.column.cell(x) for kept in self.kept]
        coded_cells = [column.cell(x) for column in self.coded]
        shown = np.zeros((people, x.shape[1]))
        for index, kept in enumerate(self.kept):
            before = kept_cells[index]
            uniform, pick = torch.rand(2, people, generator=generator, dtype=torch.float64)
            shown[:, kept.column.features] = x[:, kept.column.features]
            if kept.cost is not None and kept.alignment is not None:
                others = [*kept_cells[:index], *kept_cells[index + 1 :], *coded_cells]
                strata = kept.strata.of(kept_cells[:index], people)
                cells = kept.alignment.move(kept.cost.cost(before, others), strata, u, uniform)
                moved = np.flatnonzero(cells != before)
                donors = kept.column.donors
                which = (pick.numpy()[moved] * donors.shape[1]).astype(np.int64)
                shown[np.ix_(moved, kept.column.features)] = donors[cells[moved], which]
                kept_cells[index] = cells
        strata = self.strata.of(kept_cells, people)
        codes = np.zeros(people, dtype=np.int64)
        if self.coded:
            uniform = torch.rand(people, generator=generator, dtype=torch.float64)
            for start in range(0, people, _BLOCK):
                part = slice(start, start + _BLOCK)
                cost = squared(self.points(x[part]), self.centres)
                codes[part] = self.alignment.move(cost, strata[part], u[part], uniform[part])
            features = np.concatenate([column.features for column in self.coded])
            shown[:, features] = self.shown[codes]
        return Moved(shown, kept_cells, strata, codes)


def coordinates_of(
    columns: Sequence[Column],
    cells: Sequence[IntArray],
    weights: FloatArray,
    people: int,
    common: Common | None = None,
    common_cells: Sequence[IntArray] | None = None,
) -> FloatArray:
    """Return people's coordinates: of their cells, with a column's weight as its variance, then in common directions.

    Args:
        common_cells: people's cells of the columns of the common directions.
    """
    parts = [
        np.sqrt(weight) * column.coordinates[cell]
        for column, cell, weight in zip(columns, cells, weights, strict=True)
        if weight > 0
    ]
    if common is not None and common_cells is not None:
        parts.append(common.of(common_cells, people))
    return np.hstack(parts) if parts else np.zeros((people, 1))


def fit_chart(
    x: npt.NDArray[np.floating], names: Sequence[str], u: IntArray, values: int, settings: MapSettings, seed: int
) -> Chart:
    """Fit a chart on training people: their features, the table column of each feature, and u in 0 … values − 1."""
    rng = numpy_generator(seed, "transport")
    counts = Counts(settings.noise, numpy_generator(seed, "transport noise"))
    every = learn_columns(x, names, rng)
    stays = list(dict.fromkeys(column for name in settings.keep for column in every if name in column.names))
    coded = [column for column in every if column not in stays]
    kept_cells, coded_cells = [column.cell(x) for column in stays], [column.cell(x) for column in coded]
    kept = [
        _fit_kept(index, stays, kept_cells, coded, coded_cells, u, values, settings, counts, rng)
        for index in range(len(stays))
    ]
    strata = learn_strata(stays, kept_cells, u, values, settings.least, counts)
    cells = [column.cell(x) for column in every]
    pairs = Pairs.count(every, cells, u, values, counts)
    default_weights = importance(pairs)
    weights = np.array([settings.weight(column, default_weights[every.index(column)]) for column in coded])
    common = _common(settings, pairs, cells, [column in coded for column in every], u, values, counts)
    common_cells = None if common is None else [cells[every.index(column)] for column in common.columns]
    points = coordinates_of(coded, coded_cells, weights, len(x), common, common_cells)
    if settings.noise == 0:
        start = far_apart(points, settings.codes, rng)
    else:  # invented people: each column is drawn independently
        drawn = [rng.choice(column.cells, settings.codes, p=column.shares) for column in every]
        common_cells = None if common is None else [drawn[every.index(column)] for column in common.columns]
        drawn_cells = [drawn[every.index(column)] for column in coded]
        start = coordinates_of(coded, drawn_cells, weights, settings.codes, common, common_cells)
    counts.record()
    size = counts.noised(np.bincount(u, minlength=values)).clip(1)
    reach = sum(
        weight * float((column.coordinates**2).sum(axis=1).max()) for column, weight in zip(coded, weights, strict=True)
    )
    reach += 0.0 if common is None else common.bound**2
    centres = learn_codebook(points, size.min() / size[u], start, max(reach, 1e-12) ** 0.5, counts)
    cost = squared(torch.from_numpy(points).float(), centres)
    nearest = cost.argmin(dim=1).numpy().astype(np.int64)
    sizes = (strata.count, values)
    alignment = align(
        cost,
        nearest,
        strata.of(kept_cells, len(x)),
        u,
        sizes,
        settings.strength,
        settings.temperature,
        settings.questions,
        counts,
        float(squared(centres, centres).std(correction=0)),
        settings.crowd,
    )
    shown = _shown(coded, coded_cells, weights, nearest, len(centres), counts)
    return Chart(
        tuple(kept), tuple(coded), weights, centres, shown, strata, alignment, counts.releases, counts.epsilon(), common
    )


def _common(
    settings: MapSettings,
    pairs: Pairs,
    cells: list[IntArray],
    coded: list[bool],
    u: IntArray,
    values: int,
    counts: Counts,
) -> Common | None:
    """Learn the common directions of columns that share information with others, unless none are wanted."""
    part = np.flatnonzero(~aloof(pairs))
    if len(part) < 2 or (settings.directions == 0 and settings.guess_weight == 0):
        return None
    return learn_common(
        pairs.of(part),
        [cells[index] for index in part],
        [coded[index] for index in part],
        u,
        values,
        settings.directions,
        (settings.direction_weight, settings.guess_weight),
        counts,
    )


def _fit_kept(
    index: int,
    stays: list[Column],
    kept_cells: list[IntArray],
    coded: list[Column],
    coded_cells: list[IntArray],
    u: IntArray,
    values: int,
    settings: MapSettings,
    counts: Counts,
    rng: np.random.Generator,
) -> Kept:
    """Align one kept column within strata of those before it; `kept_cells` then holds people's new cells."""
    column, share = stays[index], settings.share(stays[index])
    strata = learn_strata(stays[:index], kept_cells[:index], u, values, settings.least, counts)
    if share == 0:
        return Kept(column, strata)
    others = [*kept_cells[:index], *kept_cells[index + 1 :], *coded_cells]
    cells = [other.cells for other in (*stays[:index], *stays[index + 1 :], *coded)]
    cost = Plausible.learn(settings.stay, column, kept_cells[index], others, cells, counts)
    costs = cost.cost(kept_cells[index], others)
    groups, sizes = strata.of(kept_cells[:index], len(u)), (strata.count, values)
    temperature = max(_PLAUSIBLE_TEMPERATURE, settings.temperature)
    alignment = align(
        costs, kept_cells[index], groups, u, sizes, share, temperature, settings.questions, counts, settings.stay
    )
    kept_cells[index] = alignment.move(costs, groups, u, torch.from_numpy(rng.random(len(u))))
    return Kept(column, strata, cost, alignment)


def _shown(
    columns: Sequence[Column],
    cells: Sequence[IntArray],
    weights: FloatArray,
    codes: IntArray,
    size: int,
    counts: Counts,
) -> FloatArray:
    """Return the features shown for each code: the mean over the cells of the people nearest to it."""
    counts.record(len(columns))
    parts = [np.zeros((size, 0))]
    for column, cell, weight in zip(columns, cells, weights, strict=True):
        table = np.bincount(codes * column.cells + cell, minlength=size * column.cells).reshape(size, column.cells)
        mean = mean_features(column, counts.noised(table))
        parts.append(mean if weight > 0 else np.zeros_like(mean))
    return np.hstack(parts)


def mean_features(column: Column, counts: FloatArray) -> FloatArray:
    """Return the mean features of people in each row of (rows, cells) counts; negative noisy counts become 0."""
    positive = np.maximum(counts, 0.0) + 1e-9 * column.shares
    return np.asarray(positive / positive.sum(axis=1, keepdims=True) @ column.donors.mean(axis=1), dtype=np.float64)
