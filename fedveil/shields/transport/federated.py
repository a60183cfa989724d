"""Transport learned in a federation by few questions: a codebook, wanted shares, potentials, and what codes show.

`learn` works for any people with coordinates; `learn_table` and `fit_table` use it to make a table's chart.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from scipy.special import softmax

from fedveil.core.arrays import FloatArray, IntArray
from fedveil.core.errors import InputError
from fedveil.core.randomness import numpy_generator
from fedveil.shields.transport.alignment import STRIDE, Alignment
from fedveil.shields.transport.chart import Chart, Kept, mean_features
from fedveil.shields.transport.codebook import squared
from fedveil.shields.transport.columns import Column, Strata, coarse_cells, learn_columns, learn_strata
from fedveil.shields.transport.counts import Counts
from fedveil.shields.transport.poll import Poll, Question, budget
from fedveil.shields.transport.settings import MapSettings

_CLEAR = 4.0
"""Standard deviations of noise by which a code's count must stand out for the code to be used."""
_STRATA = 0.05
"""The strata's share of a table's budget."""
_GROUPS = 8
"""Coarse cells of a kept column: fewer than in `fit_chart`, since each of them has noise."""
_RARE = 0.02
"""A cell rarer than this is placed no farther out than a cell with this share, which bounds one person's reach."""


@dataclass(frozen=True, eq=False)
class PlacedPeople:
    """A device's people with coordinates.

    Attributes:
        points: coordinates.
        strata: each person's stratum.
        u: each person's hidden value.
        shown: the numbers whose mean is shown for a code.
        reads_u: whether coordinates and what is shown were computed from u; the same on all devices.
    """

    points: FloatArray
    strata: IntArray
    u: IntArray
    shown: FloatArray
    reads_u: bool = False


@dataclass(frozen=True)
class Plan:
    """How many questions, and how the budget is divided among them; the shares sum to at most 1.

    Attributes:
        rounds: rounds of the codebook's k-means, one question each.
        questions: questions about how full codes are, one for each step of the potentials.
        temperature: the temperature of the draw among codes.
        strength: s, as in `Transport`.
        codebook, wanted, fill, shown: the shares of μ² for each kind of question.
    """

    rounds: int = 4
    questions: int = 30
    temperature: float = 0.05
    strength: float = 1.0
    codebook: float = 0.2
    wanted: float = 0.1
    fill: float = 0.55
    shown: float = 0.1


@dataclass(frozen=True, eq=False)
class Learned:
    """Centres (codes, d), potentials b (strata, values, codes), and the mean of what is shown for each code."""

    centres: FloatArray
    b: FloatArray
    shown: FloatArray


def learn(
    poll: Poll, start: FloatArray, reach: float, size: tuple[int, int], plan: Plan, shown_bound: float
) -> Learned:
    """Learn from a poll of `PlacedPeople`, in `size` = (strata, values of u)."""
    centres = learn_centres(poll, start, reach, plan.rounds, plan.codebook)
    wanted = _wanted(poll, centres, size, plan)
    of_value = poll.heard[-1].sum.reshape(*size, -1).sum(axis=(0, 2)).clip(1.0)
    b = _potentials(poll, centres, wanted, plan)
    return Learned(centres, b, _shown(poll, centres, of_value.min() / of_value, plan.shown, shown_bound))


def learn_centres(poll: Poll, start: FloatArray, reach: float, rounds: int, share: float) -> FloatArray:
    """Return centres by Lloyd's iterations: how many people are nearest to each, and the sum of their coordinates.

    The count and the coordinates, divided by `reach`, their largest norm, form one answer of norm √2.
    """
    centres = np.array(start, dtype=np.float64)
    for turn in range(rounds):

        def factors(people: PlacedPeople, now: FloatArray = centres) -> tuple[FloatArray, FloatArray]:
            near = np.eye(len(now))[squared(people.points, now).argmin(axis=1)]
            return near, np.hstack([np.ones((len(people.u), 1)), people.points / reach])

        moved = 2.0 if poll.devices[0].reads_u else 0.0
        heard = poll.ask(Question(f"centres, round {turn + 1}", factors, math.sqrt(2), moved), share / rounds)
        mass = heard[:, :1]
        mean = reach * heard[:, 1:] / np.maximum(mass, 1.0)
        mean *= np.minimum(1.0, reach / np.maximum(np.linalg.norm(mean, axis=1, keepdims=True), 1e-12))
        centres = np.where(mass > _CLEAR * poll.heard[-1].noise, mean, centres)
    return centres


def _wanted(poll: Poll, centres: FloatArray, size: tuple[int, int], plan: Plan) -> FloatArray:
    """Return the wanted shares (strata, values, codes): s·(those of all values) + (1 − s)·(those of the value)."""
    strata, values = size

    def factors(people: PlacedPeople) -> tuple[FloatArray, FloatArray]:
        near = np.eye(len(centres))[squared(people.points, centres).argmin(axis=1)]
        return _group(people, size), near

    question = Question("people nearest to each code", factors, moved=math.sqrt(2), values=values)
    counted = poll.ask(question, plan.wanted).reshape(strata, values, -1)
    noise = poll.heard[-1].noise
    total = counted.sum(axis=1)
    used = total > max(_CLEAR * noise * math.sqrt(values), 0.5)
    for stratum in np.flatnonzero(~used.any(axis=1)):  # no code stands out, so only the fullest is used
        used[stratum, total[stratum].argmax()] = True
    of_value = np.where(used[:, None], np.maximum(counted, 0.0), 0.0)
    common = of_value.sum(axis=1, keepdims=True)
    common = np.where(common.sum(axis=2, keepdims=True) > 0, common, used[:, None])
    totals = of_value.sum(axis=2, keepdims=True)
    share = np.where(totals > 0, of_value / np.maximum(totals, 1e-300), common / common.sum(axis=2, keepdims=True))
    return np.asarray(
        plan.strength * common / common.sum(axis=2, keepdims=True) + (1 - plan.strength) * share, dtype=np.float64
    )


def _potentials(poll: Poll, centres: FloatArray, wanted: FloatArray, plan: Plan) -> FloatArray:
    """Return b by asking how full each code is, with shrinking steps, so that noise averages out.

    The temperature falls from the spread of the centres' distances to the wanted one during the first third. A code
    that must stay empty has a potential of effectively −∞. Steps are damped if the noise is as large as the count.
    """
    size = wanted.shape[:2]
    empty = wanted < 1e-9
    b = np.where(empty, -1e6, 0.0)
    warm = plan.questions // 3
    spread = max(float(squared(centres, centres).std()) / 2, plan.temperature)
    late_potentials: list[FloatArray] = []
    for turn in range(plan.questions):
        level = plan.temperature * (spread / plan.temperature) ** max(0.0, 1 - turn / max(warm, 1))
        heard = poll.ask(_fill(centres, b, level, size, turn), plan.fill / plan.questions).reshape(wanted.shape)
        noise = poll.heard[-1].noise
        fill = np.maximum(heard, max(noise, 1e-7))
        people = np.maximum(np.where(empty, 0.0, heard).sum(axis=2, keepdims=True), 1.0)
        trust = wanted**2 / (wanted**2 + (noise / people) ** 2 + 1e-300)
        late_turn = turn - plan.questions // 2
        stride = STRIDE if late_turn < 0 or noise == 0 else STRIDE / (1 + late_turn / 3)
        step = np.log(np.maximum(wanted, 1e-300)) - np.log(fill / people)
        b = np.where(empty, b, b + stride * level * trust * np.clip(step, -20, 20))
        if noise > 0 and turn >= 3 * plan.questions // 4:
            late_potentials.append(b)
    return np.mean(late_potentials, axis=0) if late_potentials else b


def _fill(centres: FloatArray, b: FloatArray, level: float, size: tuple[int, int], turn: int) -> Question:
    """Ask how full each code is: every person's chances of each code, which sum to 1, so that their norm is below 1."""

    def factors(people: PlacedPeople) -> tuple[FloatArray, FloatArray]:
        chances = softmax((b[people.strata, people.u] - squared(people.points, centres)) / level, axis=1)
        return _group(people, size), np.asarray(chances, dtype=np.float64)

    return Question(f"how full codes are, {turn + 1}", factors, moved=math.sqrt(2), values=size[1])


def _shown(poll: Poll, centres: FloatArray, weight: FloatArray, share: float, bound: float) -> FloatArray:
    """Return the mean of what is shown over the people nearest to a code, with every value of u weighted equally."""

    def factors(people: PlacedPeople) -> tuple[FloatArray, FloatArray]:
        near = np.eye(len(centres))[squared(people.points, centres).argmin(axis=1)]
        return near * weight[people.u, None], np.hstack([np.ones((len(people.u), 1)), people.shown / bound])

    moved = 2.0 if poll.devices[0].reads_u else 1.0  # weights depend on u as well
    heard = poll.ask(Question("what codes show", factors, math.sqrt(2), moved), share)
    everybody = bound * heard[:, 1:].sum(axis=0) / max(float(heard[:, 0].sum()), 1.0)
    mean = bound * heard[:, 1:] / np.maximum(heard[:, :1], 1.0)
    return np.where(heard[:, :1] > _CLEAR * poll.heard[-1].noise, mean, everybody)


def _group(people: PlacedPeople, size: tuple[int, int]) -> FloatArray:
    """Return one-hot (stratum × value of u)."""
    return np.asarray(np.eye(size[0] * size[1])[people.strata * size[1] + people.u], dtype=np.float64)


@dataclass(frozen=True, eq=False)
class People:
    """A device's people in a table: their features and u."""

    x: npt.NDArray[np.floating]
    u: IntArray


class _AnsweredCounts(Counts):
    """Counts that a poll has already answered."""

    def __init__(self, answer: FloatArray) -> None:
        super().__init__(0.0, np.random.default_rng(0))
        self.answer = answer

    def noised(self, sums: npt.ArrayLike) -> FloatArray:
        return self.answer


def fit_table(
    x: npt.NDArray[np.floating],
    names: Sequence[str],
    u: IntArray,
    values: int,
    settings: MapSettings,
    seed: int,
    epsilon: float,
) -> Chart:
    """Fit a chart on training people within ε; it makes no difference how they are divided among devices."""
    rng = numpy_generator(seed, "transport")
    poll = Poll([People(x, u)], budget(epsilon), numpy_generator(seed, "transport noise"))
    plan = Plan(questions=settings.questions)
    return learn_table(poll, learn_columns(x, names, rng), values, settings, plan, rng)[1]


def learn_table(
    poll: Poll, columns: Sequence[Column], values: int, settings: MapSettings, plan: Plan, rng: np.random.Generator
) -> tuple[Learned, Chart]:
    """Learn from a poll of `People`; the columns' cells, their shares and means are public.

    Columns that stay are shown as they are: none may be aligned. All others become codes within strata of them.
    Strength and temperature come from the settings, the number of questions and their shares from the plan.
    """
    stays = list(dict.fromkeys(column for name in settings.keep for column in columns if name in column.names))
    for column in stays:
        if settings.share(column) > 0:
            raise InputError(
                f"transport: with epsilon, columns that stay are not aligned, but {column.names[0]!r} would be at "
                f"strength {settings.strength}; lower the strength, raise its start in keep, or do not keep it"
            )
    coded = [column for column in columns if column not in stays]
    if not coded:
        raise InputError("transport: every column stays, so there is nothing to turn into codes; keep fewer columns")
    weights = np.array([settings.weight(column, 1.0) for column in coded])
    bounded = [replace(column, coordinates=_within_reach(column)) for column in coded]
    reach = math.sqrt(
        sum(
            weight * float((column.coordinates**2).sum(axis=1).max())
            for weight, column in zip(weights, bounded, strict=True)
        )
    )
    strata = _strata(poll, stays, values, settings.least)

    def points(cells: Sequence[IntArray], people: int) -> FloatArray:
        parts = [
            math.sqrt(weight) * column.coordinates[cell]
            for weight, column, cell in zip(weights, bounded, cells, strict=True)
            if weight > 0
        ]
        return np.hstack([*parts, np.zeros((people, int(not parts)))])

    def place(people: People) -> PlacedPeople:
        cells = [column.cell(people.x) for column in coded]
        one_hot = [np.eye(column.cells)[cell] for column, cell in zip(coded, cells, strict=True)]
        group = strata.of([column.cell(people.x) for column in stays], len(people.u))
        return PlacedPeople(points(cells, len(people.u)), group, people.u, np.hstack(one_hot))

    poll.each(place)
    drawn = [rng.choice(column.cells, settings.codes, p=column.shares) for column in coded]  # invented people
    learned = learn(
        poll,
        points(drawn, settings.codes),
        max(reach, 1e-12),
        (strata.count, values),
        replace(plan, strength=settings.strength, temperature=settings.temperature),
        math.sqrt(len(coded)),
    )
    shown, start = [], 0
    for column in coded:
        shown.append(mean_features(column, learned.shown[:, start : start + column.cells]))
        start += column.cells
    chart = Chart(
        kept=tuple(Kept(column, Strata.single()) for column in stays),
        coded=tuple(bounded),
        weights=weights,
        centres=torch.from_numpy(learned.centres).float(),
        shown=np.hstack(shown),
        strata=strata,
        alignment=Alignment(torch.from_numpy(learned.b).float(), settings.temperature),
        releases=len(poll.heard),
        epsilon=poll.epsilon(),
    )
    return learned, chart


def _within_reach(column: Column) -> FloatArray:
    """Return the cells' coordinates, with rare cells pulled in, so that no person moves a sum far."""
    longest = math.sqrt(1 / max(float(column.shares[column.shares > 0].min()), _RARE))
    length = np.linalg.norm(column.coordinates, axis=1, keepdims=True)
    return np.asarray(column.coordinates * np.minimum(1.0, longest / np.maximum(length, 1e-12)), dtype=np.float64)


def _strata(poll: Poll, stays: Sequence[Column], values: int, least: int) -> Strata:
    """Ask how many people of each value have each combination of coarse cells; no question if no column stays."""
    if not stays:
        return Strata.single()
    coarse = [coarse_cells(column, _GROUPS) for column in stays]
    shape = tuple(int(groups.max()) + 1 for groups in coarse)
    size = int(np.prod(shape, dtype=np.int64))

    def factors(people: People) -> tuple[FloatArray, FloatArray]:
        groups = [coarse_cell[column.cell(people.x)] for coarse_cell, column in zip(coarse, stays, strict=True)]
        row = np.ravel_multi_index(groups, shape) * values + people.u
        one_hot = np.zeros((len(row), size * values))
        one_hot[np.arange(len(row)), row] = 1.0
        return one_hot, np.ones((len(row), 1))

    question = Question("people in each stratum", factors, moved=math.sqrt(2), values=values)
    answer = _AnsweredCounts(poll.ask(question, _STRATA).reshape(size, values))
    nobody = np.zeros(0, dtype=np.int64)
    return learn_strata(stays, [nobody] * len(stays), nobody, values, least, answer, _GROUPS)
