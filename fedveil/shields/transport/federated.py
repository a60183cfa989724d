"""Transport learned in a federation by few questions: a codebook, wanted shares, potentials, and what codes show."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import softmax

from fedveil.core.arrays import FloatArray, IntArray
from fedveil.shields.transport.codebook import squared
from fedveil.shields.transport.poll import Poll, Question
from fedveil.shields.transport.solver import STRIDE

_CLEAR = 4.0
"""Noise deviations by which a code's count must stand out for the code to be used."""


@dataclass(frozen=True, eq=False)
class Placed:
    """A device's people: coordinates, stratum, u, and the numbers whose mean is shown of a code.

    `reads_u`, alike on all devices: whether coordinates and what is shown were worked out with the person's u.
    """

    points: FloatArray
    strata: IntArray
    u: IntArray
    shown: FloatArray
    reads_u: bool = False


@dataclass(frozen=True)
class Plan:
    """How many questions, and how the budget is shared among them; the shares sum to at most 1.

    Attributes:
        rounds: of the codebook's k-means, one question each.
        questions: on how full codes are, one for each step of the potentials.
        temperature: of the draw among codes.
        strength: s, as in `Transport`.
        codebook, wanted, fill, shown: shares of μ².
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
    """Centres (codes, d), potentials b (strata, values, codes), and the mean of what is shown of each code."""

    centres: FloatArray
    b: FloatArray
    shown: FloatArray


def learn(
    poll: Poll, start: FloatArray, reach: float, size: tuple[int, int], plan: Plan, shown_bound: float
) -> Learned:
    """Learn from a poll of `Placed` people, in `size` = (strata, values of u)."""
    centres = learn_centres(poll, start, reach, plan.rounds, plan.codebook)
    wanted = _wanted(poll, centres, size, plan)
    of_value = poll.heard[-1].sum.reshape(*size, -1).sum(axis=(0, 2)).clip(1.0)
    b = _potentials(poll, centres, wanted, plan)
    return Learned(centres, b, _shown(poll, centres, of_value.min() / of_value, plan.shown, shown_bound))


def learn_centres(poll: Poll, start: FloatArray, reach: float, rounds: int, share: float) -> FloatArray:
    """Return centres by Lloyd's iterations: how many people are nearest to each, and the sum of their coordinates.

    Count and coordinates over `reach`, their largest norm, are one answer of norm √2.
    """
    centres = np.array(start, dtype=np.float64)
    for turn in range(rounds):

        def factors(people: Placed, now: FloatArray = centres) -> tuple[FloatArray, FloatArray]:
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
    """Return the wanted shares (strata, values, codes): s·everybody's + (1 − s)·one's own."""
    strata, values = size

    def factors(people: Placed) -> tuple[FloatArray, FloatArray]:
        near = np.eye(len(centres))[squared(people.points, centres).argmin(axis=1)]
        return _group(people, size), near

    question = Question("people nearest to each code", factors, moved=math.sqrt(2), values=values)
    seen = poll.ask(question, plan.wanted).reshape(strata, values, -1)
    noise = poll.heard[-1].noise
    total = seen.sum(axis=1)
    used = total > max(_CLEAR * noise * math.sqrt(values), 0.5)
    for stratum in np.flatnonzero(~used.any(axis=1)):  # nobody stands out: the fullest code is all there is
        used[stratum, total[stratum].argmax()] = True
    own = np.where(used[:, None], np.maximum(seen, 0.0), 0.0)
    common = own.sum(axis=1, keepdims=True)
    common = np.where(common.sum(axis=2, keepdims=True) > 0, common, used[:, None])
    of_own = own.sum(axis=2, keepdims=True)
    share = np.where(of_own > 0, own / np.maximum(of_own, 1e-300), common / common.sum(axis=2, keepdims=True))
    return np.asarray(
        plan.strength * common / common.sum(axis=2, keepdims=True) + (1 - plan.strength) * share, dtype=np.float64
    )


def _potentials(poll: Poll, centres: FloatArray, wanted: FloatArray, plan: Plan) -> FloatArray:
    """Return b by asking how full each code is, with steps that shrink, so that noise averages out.

    The temperature falls from the spread of the centres' own distances to the wanted one in the first third.
    A code that must stay empty has potential −∞ in effect. Steps are damped where noise is as large as the count.
    """
    size = wanted.shape[:2]
    empty = wanted < 1e-9
    b = np.where(empty, -1e6, 0.0)
    warm = plan.questions // 3
    spread = max(float(squared(centres, centres).std()) / 2, plan.temperature)
    late: list[FloatArray] = []
    for turn in range(plan.questions):
        level = plan.temperature * (spread / plan.temperature) ** max(0.0, 1 - turn / max(warm, 1))
        heard = poll.ask(_fill(centres, b, level, size, turn), plan.fill / plan.questions).reshape(wanted.shape)
        noise = poll.heard[-1].noise
        found = np.maximum(heard, max(noise, 1e-7))
        people = np.maximum(np.where(empty, 0.0, heard).sum(axis=2, keepdims=True), 1.0)
        trust = wanted**2 / (wanted**2 + (noise / people) ** 2 + 1e-300)
        late_turn = turn - plan.questions // 2
        stride = STRIDE if late_turn < 0 or noise == 0 else STRIDE / (1 + late_turn / 3)
        step = np.log(np.maximum(wanted, 1e-300)) - np.log(found / people)
        b = np.where(empty, b, b + stride * level * trust * np.clip(step, -20, 20))
        if noise > 0 and turn >= 3 * plan.questions // 4:
            late.append(b)
    return np.mean(late, axis=0) if late else b


def _fill(centres: FloatArray, b: FloatArray, level: float, size: tuple[int, int], turn: int) -> Question:
    """Ask how full each code is: every person's chances of each code, which sum to 1, so that their norm is below 1."""

    def factors(people: Placed) -> tuple[FloatArray, FloatArray]:
        own = b[people.strata, people.u]
        chances = softmax((own - squared(people.points, centres)) / level, axis=1)
        return _group(people, size), np.asarray(chances, dtype=np.float64)

    return Question(f"how full codes are, {turn + 1}", factors, moved=math.sqrt(2), values=size[1])


def _shown(poll: Poll, centres: FloatArray, weight: FloatArray, share: float, bound: float) -> FloatArray:
    """Return the mean of what is shown over the people nearest to a code, every value of u weighing alike."""

    def factors(people: Placed) -> tuple[FloatArray, FloatArray]:
        near = np.eye(len(centres))[squared(people.points, centres).argmin(axis=1)]
        return near * weight[people.u, None], np.hstack([np.ones((len(people.u), 1)), people.shown / bound])

    moved = 2.0 if poll.devices[0].reads_u else 1.0  # weights, too, depend on u
    heard = poll.ask(Question("what codes show", factors, math.sqrt(2), moved), share)
    everybody = bound * heard[:, 1:].sum(axis=0) / max(float(heard[:, 0].sum()), 1.0)
    mean = bound * heard[:, 1:] / np.maximum(heard[:, :1], 1.0)
    return np.where(heard[:, :1] > _CLEAR * poll.heard[-1].noise, mean, everybody)


def _group(people: Placed, size: tuple[int, int]) -> FloatArray:
    """Return one-hot (stratum × value of u)."""
    return np.asarray(np.eye(size[0] * size[1])[people.strata * size[1] + people.u], dtype=np.float64)
