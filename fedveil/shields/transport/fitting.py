"""Fit a chart on training people, from counts alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from fedveil.core.arrays import FloatArray, IntArray
from fedveil.core.randomness import numpy_generator
from fedveil.shields.transport.alignment import Alignment, Plausible, align
from fedveil.shields.transport.chart import Chart, Kept, places_of
from fedveil.shields.transport.codebook import far_apart, learn_codebook, squared
from fedveil.shields.transport.columns import Column, learn_columns
from fedveil.shields.transport.common import Common, learn_common
from fedveil.shields.transport.counts import Counts
from fedveil.shields.transport.pairs import Pairs
from fedveil.shields.transport.recipe import Recipe
from fedveil.shields.transport.strata import learn_strata
from fedveil.shields.transport.weights import aloof, importance

_PLAUSIBLE_TEMPERATURE = 0.3
"""For columns that stay, whose costs are logarithms of probabilities."""


def fit_chart(
    x: npt.NDArray[np.floating], names: Sequence[str], u: IntArray, values: int, recipe: Recipe, seed: int
) -> Chart:
    """Fit a chart on training people: their features, the table column of each feature, and u in 0 … values − 1."""
    rng = numpy_generator(seed, "transport")
    counts = Counts(recipe.noise, numpy_generator(seed, "transport noise"))
    every = learn_columns(x, names, rng)
    stays = list(dict.fromkeys(column for name in recipe.keep for column in every if name in column.names))
    coded = [column for column in every if column not in stays]
    own, rest = [column.cell(x) for column in stays], [column.cell(x) for column in coded]
    kept = [_fit_kept(place, stays, own, coded, rest, u, values, recipe, counts, rng) for place in range(len(stays))]
    strata = learn_strata(stays, own, u, values, recipe.least, counts)
    cells = [column.cell(x) for column in every]
    pairs = Pairs.count(every, cells, u, values, counts)
    found = importance(pairs)
    weights = np.array([recipe.weight(column, found[every.index(column)]) for column in coded])
    common = _common(recipe, pairs, cells, [column in coded for column in every], u, values, counts)
    together = None if common is None else [cells[every.index(column)] for column in common.columns]
    points = places_of(coded, rest, weights, len(x), common, together)
    if recipe.noise == 0:
        start = far_apart(points, recipe.codes, rng)
    else:  # people who never lived: each column drawn by itself
        drawn = [rng.choice(column.cells, recipe.codes, p=column.shares) for column in every]
        together = None if common is None else [drawn[every.index(column)] for column in common.columns]
        own_draws = [drawn[every.index(column)] for column in coded]
        start = places_of(coded, own_draws, weights, recipe.codes, common, together)
    counts.asked()
    size = counts.noised(np.bincount(u, minlength=values)).clip(1)
    reach = sum(w * float((column.places**2).sum(axis=1).max()) for column, w in zip(coded, weights, strict=True))
    reach += 0.0 if common is None else common.bound**2
    centres = learn_codebook(points, size.min() / size[u], start, max(reach, 1e-12) ** 0.5, counts)
    cost = squared(torch.from_numpy(points).float(), centres)
    nearest = cost.argmin(dim=1).numpy().astype(np.int64)
    sizes = (strata.count, values)
    alignment = align(
        cost,
        nearest,
        strata.of(own, len(x)),
        u,
        sizes,
        recipe.strength,
        recipe.temperature,
        recipe.questions,
        counts,
        float(squared(centres, centres).std(correction=0)),
        recipe.crowd,
    )
    shown = _shown(coded, rest, weights, nearest, len(centres), counts)
    return Chart(
        tuple(kept), tuple(coded), weights, centres, shown, strata, alignment, counts.releases, counts.epsilon(), common
    )


def _common(
    recipe: Recipe,
    pairs: Pairs,
    cells: list[IntArray],
    coded: list[bool],
    u: IntArray,
    values: int,
    counts: Counts,
) -> Common | None:
    """Learn the common directions of columns that share something with others, unless none are wanted."""
    part = np.flatnonzero(~aloof(pairs))
    if len(part) < 2 or (recipe.directions == 0 and recipe.guess_weight == 0):
        return None
    return learn_common(
        pairs.of(part),
        [cells[place] for place in part],
        [coded[place] for place in part],
        u,
        values,
        recipe.directions,
        (recipe.direction_weight, recipe.guess_weight),
        counts,
    )


def _fit_kept(
    place: int,
    stays: list[Column],
    own: list[IntArray],
    coded: list[Column],
    rest: list[IntArray],
    u: IntArray,
    values: int,
    recipe: Recipe,
    counts: Counts,
    rng: np.random.Generator,
) -> Kept:
    """Align one column that stays within strata of those before it; `own` then holds people's new cells."""
    column, share = stays[place], recipe.share(stays[place])
    strata = learn_strata(stays[:place], own[:place], u, values, recipe.least, counts)
    if share == 0:
        return Kept(column, strata)
    others = [*own[:place], *own[place + 1 :], *rest]
    cells = [other.cells for other in (*stays[:place], *stays[place + 1 :], *coded)]
    cost = Plausible.learn(recipe.stay, column, own[place], others, cells, counts)
    costs = cost.cost(own[place], others)
    groups, sizes = strata.of(own[:place], len(u)), (strata.count, values)
    temperature = max(_PLAUSIBLE_TEMPERATURE, recipe.temperature)
    alignment: Alignment = align(
        costs, own[place], groups, u, sizes, share, temperature, recipe.questions, counts, recipe.stay
    )
    own[place] = alignment.move(costs, groups, u, torch.from_numpy(rng.random(len(u))))
    return Kept(column, strata, cost, alignment)


def _shown(
    columns: Sequence[Column],
    cells: Sequence[IntArray],
    weights: FloatArray,
    codes: IntArray,
    size: int,
    counts: Counts,
) -> FloatArray:
    """Return the features shown of each code: the mean over the cells that people nearest to it have."""
    counts.asked(len(columns))
    parts = [np.zeros((size, 0))]
    for column, own, weight in zip(columns, cells, weights, strict=True):
        table = np.bincount(codes * column.cells + own, minlength=size * column.cells).reshape(size, column.cells)
        seen = np.maximum(counts.noised(table), 0.0) + 1e-9 * column.shares
        mean = seen / seen.sum(axis=1, keepdims=True) @ column.donors.mean(axis=1)
        parts.append(mean if weight > 0 else np.zeros_like(mean))
    return np.hstack(parts)
