"""Attacks on the answers that fitting a transport reveals (a poll), by observers who know almost everything else.

`attack_target`: the observer sees every sum, knows all other people and the whole record of the target except u, and
infers u by the likelihood-ratio test between the two worlds, which no test beats (Neyman and Pearson 1933). Its
advantage is measured over repetitions and reported next to 2Φ(μ/2) − 1, which no observer can exceed.
`attack_devices`: without secure aggregation the server sees each device's answers, and infers which value of u most of
its people have.
Both attacks are measurements and prove no privacy; the bound does, for the poll's sums.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fedveil.certificates.confidence import proportion_bounds
from fedveil.core.arrays import FloatArray, IntArray
from fedveil.core.errors import InputError
from fedveil.core.figures import Estimate
from fedveil.shields.transport.poll import Device, Poll, gaussian_advantage


@dataclass(frozen=True)
class TargetFigures:
    """How well the test infers one person's u.

    Attributes:
        advantage: P(guess 1 | u = 1) − P(guess 1 | u = 0), with its interval over repetitions (Clopper and Pearson).
        accuracy: share of right guesses if both worlds are equally likely.
        bound: 2Φ(μ/2) − 1 with μ the poll's `attribute_mu`: no observer of the sums exceeds it.
        reached: the same for the distance that this target's answers really moved, averaged over repetitions.
        repetitions: how many polls were held, half of them in each world.
    """

    advantage: Estimate
    accuracy: float
    bound: float
    reached: float
    repetitions: int


def evidence(poll: Poll, others: Sequence[Device], worlds: tuple[Device, Device]) -> tuple[float, float]:
    """Return ln p(answers | world 1) − ln p(answers | world 0), and the worlds' distance in noise deviations.

    Args:
        poll: the finished poll; only its sums, its questions and what devices received are read.
        others: all people but the target, as the poll's devices first held them.
        worlds: the target alone on a device, with u = 0 and with u = 1.
    """
    rest, target = list(others), list(worlds)
    log_ratio, squared_distance, step = 0.0, 0.0, 0
    for heard in poll.heard:
        for change in poll.steps[step : heard.step]:
            rest, target = [change(device) for device in rest], [change(device) for device in target]
        step = heard.step
        remainder = heard.sum - np.sum([heard.question.answer(device) for device in rest], axis=0)
        answer_0, answer_1 = (heard.question.answer(device) for device in target)
        moved = float(((answer_1 - answer_0) ** 2).sum())
        gain = float(((remainder - answer_0) ** 2).sum() - ((remainder - answer_1) ** 2).sum())
        if heard.noise == 0:
            if moved > 1e-12:  # sums are exact: the world with the smaller remainder is the true one
                return math.copysign(math.inf, gain), math.inf
            continue
        log_ratio += gain / (2 * heard.noise**2)
        squared_distance += moved / heard.noise**2
    return log_ratio, math.sqrt(squared_distance)


def attack_target(
    hold: Callable[[Device, int], Poll],
    others: Sequence[Device],
    worlds: tuple[Device, Device],
    repetitions: int = 400,
    confidence: float = 0.95,
) -> TargetFigures:
    """Hold a poll repeatedly, in the two worlds in turn, and infer the target's u from each.

    Args:
        hold: takes the target's device and a number that seeds the noise, and holds the whole poll with all devices.
        others, worlds: as in `evidence`.
        repetitions: how many polls, at least 2; an odd number is rounded down.
        confidence: the level of the advantage's interval.
    """
    if repetitions < 2:
        raise InputError(f"attack on a poll: needs at least 2 repetitions, got {repetitions}")
    half = repetitions // 2
    guesses_of_1, distances, bound = [0, 0], [], 0.0
    for turn in range(half):
        for world in (0, 1):
            poll = hold(worlds[world], 2 * turn + world)
            log_ratio, distance = evidence(poll, others, worlds)
            guesses_of_1[world] += log_ratio > 0
            distances.append(distance)
            bound = max(bound, poll.attribute_mu)
    alpha = (1 - confidence) / 4  # four one-sided bounds hold together
    (false_low, false_high), (true_low, true_high) = (
        proportion_bounds(guesses, half, alpha) for guesses in guesses_of_1
    )
    rates = [guesses / half for guesses in guesses_of_1]
    return TargetFigures(
        advantage=Estimate(rates[1] - rates[0], true_low - false_high, true_high - false_low, confidence),
        accuracy=(rates[1] + 1 - rates[0]) / 2,
        bound=gaussian_advantage(bound),
        reached=float(np.mean([gaussian_advantage(distance) for distance in distances])),
        repetitions=2 * half,
    )


@dataclass(frozen=True, eq=False)
class DeviceFigures:
    """What the server infers about each device's people without secure aggregation.

    Attributes:
        counts: the estimated number of people with each value of u, (devices, K).
        accuracy: share of devices whose most frequent value was guessed, with its interval.
        prior: accuracy of always guessing the most frequent of these values.
        error: mean absolute error of the estimated counts, in people.
    """

    counts: FloatArray
    accuracy: Estimate
    prior: float
    error: float

    def __repr__(self) -> str:
        return f"DeviceFigures({len(self.counts)} devices, accuracy {self.accuracy}, prior {self.prior:.3f})"


def read_devices(poll: Poll) -> FloatArray:
    """Estimate each device's number of people by value, with least variance, from all answers whose rows are values."""
    usable = [heard for heard in poll.heard if heard.question.values and heard.parts]
    if not usable:
        raise InputError("attack on a poll: no device's answer was kept; hold the poll with listen=True")
    values = usable[0].question.values
    weights = [1 / (heard.sum.size * heard.noise**2) if heard.noise else 1.0 for heard in usable]
    counts = sum(
        weight * np.array([part.reshape(-1, values, part.shape[1]).sum(axis=(0, 2)) for part in heard.parts])
        for weight, heard in zip(weights, usable, strict=True)
    )
    return np.asarray(counts / np.sum(weights), dtype=np.float64)


def attack_devices(poll: Poll, u: Sequence[IntArray], confidence: float = 0.95) -> DeviceFigures:
    """Guess the most frequent value of u on every device, and compare with the true `u` of its people."""
    counts = read_devices(poll)
    true = np.array([np.bincount(people, minlength=counts.shape[1]) for people in u])
    if len(true) != len(counts):
        raise InputError(f"attack on a poll: {len(counts)} devices answered, but u is given for {len(true)}")
    right = int((counts.argmax(axis=1) == true.argmax(axis=1)).sum())
    low, high = proportion_bounds(right, len(true), (1 - confidence) / 2)
    return DeviceFigures(
        counts=counts,
        accuracy=Estimate(right / len(true), low, high, confidence),
        prior=float(np.bincount(true.argmax(axis=1)).max() / len(true)),
        error=float(np.abs(counts - true).mean()),
    )
