"""A table's chart learned in a federation, by few questions under one budget; see `poll` and `federated`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch

from fedveil.core.arrays import FloatArray, IntArray
from fedveil.core.errors import InputError
from fedveil.core.randomness import numpy_generator
from fedveil.shields.transport.alignment import Alignment
from fedveil.shields.transport.chart import Chart, Kept
from fedveil.shields.transport.columns import Column, learn_columns
from fedveil.shields.transport.counts import Counts
from fedveil.shields.transport.federated import Learned, Placed, Plan, learn
from fedveil.shields.transport.poll import Poll, Question, budget
from fedveil.shields.transport.recipe import Recipe
from fedveil.shields.transport.strata import Strata, coarse_cells, learn_strata

_STRATA = 0.05
"""The strata's share of the budget."""
_GROUPS = 8
"""Coarse cells of a column that stays: fewer than the fuller fit's, since noise is on every one."""
_RARE = 0.02
"""A cell this rare lies no farther out than this share would: one person's reach is then bounded."""


@dataclass(frozen=True, eq=False)
class People:
    """A device's people: their features and u."""

    x: npt.NDArray[np.floating]
    u: IntArray


class _Told(Counts):
    """Counts that were asked for elsewhere."""

    def __init__(self, told: FloatArray) -> None:
        super().__init__(0.0, np.random.default_rng(0))
        self.told = told

    def noised(self, sums: npt.ArrayLike) -> FloatArray:
        return self.told


def fit_table(
    x: npt.NDArray[np.floating],
    names: Sequence[str],
    u: IntArray,
    values: int,
    recipe: Recipe,
    seed: int,
    epsilon: float,
) -> Chart:
    """Fit a chart on training people within ε; all of them on one device is the same as each on their own."""
    rng = numpy_generator(seed, "transport")
    poll = Poll([People(x, u)], budget(epsilon), numpy_generator(seed, "transport noise"))
    plan = Plan(questions=recipe.questions)
    return learn_table(poll, learn_columns(x, names, rng), values, recipe, plan, rng)[1]


def learn_table(
    poll: Poll, columns: Sequence[Column], values: int, recipe: Recipe, plan: Plan, rng: np.random.Generator
) -> tuple[Learned, Chart]:
    """Learn from a poll of `People`; the columns' cells, their shares and means are public.

    Columns that stay are shown as they are: none may be aligned. All others become codes within strata of them.
    Strength and temperature are the recipe's, the number of questions and their shares the plan's.
    """
    stays = list(dict.fromkeys(column for name in recipe.keep for column in columns if name in column.names))
    for column in stays:
        if recipe.share(column) > 0:
            raise InputError(
                f"transport: with epsilon, columns that stay are not aligned, but {column.names[0]!r} would be at "
                f"strength {recipe.strength}; lower the strength, raise its start in keep, or leave it out"
            )
    coded = [column for column in columns if column not in stays]
    if not coded:
        raise InputError("transport: every column stays, so there is nothing to turn into codes; keep fewer")
    weights = np.array([recipe.weight(column, 1.0) for column in coded])
    places = [_within_reach(column) for column in coded]
    reach = math.sqrt(sum(w * float((own**2).sum(axis=1).max()) for w, own in zip(weights, places, strict=True)))
    strata = _strata(poll, stays, values, recipe.least)

    def place(people: People) -> Placed:
        cells = [column.cell(people.x) for column in coded]
        points = [math.sqrt(w) * own[cell] for w, own, cell in zip(weights, places, cells, strict=True) if w > 0]
        hot = [np.eye(column.cells)[cell] for column, cell in zip(coded, cells, strict=True)]
        group = strata.of([column.cell(people.x) for column in stays], len(people.u))
        return Placed(np.hstack([*points, np.zeros((len(people.u), int(not points)))]), group, people.u, np.hstack(hot))

    poll.each(place)
    drawn = [rng.choice(column.cells, recipe.codes, p=column.shares) for column in coded]  # people who never lived
    start = [math.sqrt(w) * own[cell] for w, own, cell in zip(weights, places, drawn, strict=True) if w > 0]
    found = learn(
        poll,
        np.hstack([*start, np.zeros((recipe.codes, int(not start)))]),
        max(reach, 1e-12),
        (strata.count, values),
        replace(plan, strength=recipe.strength, temperature=recipe.temperature),
        math.sqrt(len(coded)),
    )
    return found, _chart(poll, found, stays, coded, weights, places, strata, recipe)


def _within_reach(column: Column) -> FloatArray:
    """Return the cells' coordinates, those of rare cells drawn in, so that one person moves no sum far."""
    longest = math.sqrt(1 / max(float(column.shares[column.shares > 0].min()), _RARE))
    length = np.linalg.norm(column.places, axis=1, keepdims=True)
    return np.asarray(column.places * np.minimum(1.0, longest / np.maximum(length, 1e-12)), dtype=np.float64)


def _strata(poll: Poll, stays: Sequence[Column], values: int, least: int) -> Strata:
    """Ask how many people of each value have each combination of coarse cells; nothing where nothing stays."""
    coarse = [coarse_cells(column, _GROUPS) for column in stays]
    shape = tuple(int(groups.max()) + 1 for groups in coarse)
    size = int(np.prod(shape, dtype=np.int64))
    if not stays:
        return Strata((), np.zeros(1, dtype=np.int64), 1)

    def factors(people: People) -> tuple[FloatArray, FloatArray]:
        own = [groups[column.cell(people.x)] for groups, column in zip(coarse, stays, strict=True)]
        row = np.ravel_multi_index(own, shape) * values + people.u
        hot = np.zeros((len(row), size * values))
        hot[np.arange(len(row)), row] = 1.0
        return hot, np.ones((len(row), 1))

    told = poll.ask(Question("people in each stratum", factors, moved=math.sqrt(2), values=values), _STRATA)
    nobody = np.zeros(0, dtype=np.int64)
    return learn_strata(stays, [nobody] * len(stays), nobody, values, least, _Told(told.reshape(size, values)), _GROUPS)


def _chart(
    poll: Poll,
    found: Learned,
    stays: Sequence[Column],
    coded: Sequence[Column],
    weights: FloatArray,
    places: Sequence[FloatArray],
    strata: Strata,
    recipe: Recipe,
) -> Chart:
    shown, start = [], 0
    for column in coded:
        seen = np.maximum(found.shown[:, start : start + column.cells], 0.0) + 1e-9 * column.shares
        shown.append(seen / seen.sum(axis=1, keepdims=True) @ column.donors.mean(axis=1))
        start += column.cells
    none = Strata((), np.zeros(1, dtype=np.int64), 1)
    return Chart(
        kept=tuple(Kept(column, none) for column in stays),
        coded=tuple(replace(column, places=own) for column, own in zip(coded, places, strict=True)),
        weights=weights,
        centres=torch.from_numpy(found.centres).float(),
        shown=np.hstack(shown),
        strata=strata,
        alignment=Alignment(torch.from_numpy(found.b).float(), recipe.temperature),
        releases=len(poll.heard),
        epsilon=poll.epsilon(),
    )
