"""Attacks on what fitting a transport reveals: the answers of a poll, to one who knows nearly everything else.

`attack_target`: the observer sees every sum, knows all other people and the target's whole record, and asks which u the
target has: the likelihood-ratio test between the two worlds, which no test beats (Neyman and Pearson 1933). Its
advantage is measured over repetitions and stands beside 2Φ(μ/2) − 1, which no observer can exceed.
`attack_devices`: without secure aggregation the server sees each device's answers, and reads which value of u most of
its people have.
Both measure; neither proves privacy. The bound does, for the poll's sums.
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
    """What the test on one person's u reached.

    Attributes:
        advantage: P(says 1 | u = 1) − P(says 1 | u = 0), with its interval over repetitions (Clopper and Pearson).
        accuracy: share of right answers, both worlds equally likely.
        bound: 2Φ(μ/2) − 1 with μ the poll's `attribute_mu`: no observer of the sums exceeds it.
        reached: the same with the distance that this target's answers really moved, averaged over repetitions.
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
        poll: the finished poll; only its sums, questions and what devices were told are read.
        others: all people but the target, as the poll's devices had them at first.
        worlds: the target alone on a device, with u = 0 and with u = 1.
    """
    known, target = list(others), list(worlds)
    told, apart, step = 0.0, 0.0, 0
    for heard in poll.heard:
        for own in poll.steps[step : heard.step]:
            known, target = [own(device) for device in known], [own(device) for device in target]
        step = heard.step
        rest = heard.sum - np.sum([heard.question.answer(device) for device in known], axis=0)
        zero, one = (heard.question.answer(device) for device in target)
        moved = float(((one - zero) ** 2).sum())
        gain = float(((rest - zero) ** 2).sum() - ((rest - one) ** 2).sum())
        if heard.noise == 0:
            if moved > 1e-12:  # exact sums: the smaller remainder is the truth
                return math.copysign(math.inf, gain), math.inf
            continue
        told += gain / (2 * heard.noise**2)
        apart += moved / heard.noise**2
    return told, math.sqrt(apart)


def attack_target(
    hold: Callable[[Device, int], Poll],
    others: Sequence[Device],
    worlds: tuple[Device, Device],
    repetitions: int = 400,
    confidence: float = 0.95,
) -> TargetFigures:
    """Hold a poll again and again, in either world in turn, and test each for the target's u.

    Args:
        hold: given the target's device and a number for the noise, holds the whole poll with all others and returns it.
        others, worlds: as in `evidence`.
        repetitions: at least 2; an even number is held.
        confidence: of the advantage's interval.
    """
    if repetitions < 2:
        raise InputError(f"attack on counts: needs at least 2 repetitions, got {repetitions}")
    half = repetitions // 2
    says_one, distances, bound = [0, 0], [], 0.0
    for turn in range(half):
        for world in (0, 1):
            poll = hold(worlds[world], 2 * turn + world)
            ratio, apart = evidence(poll, others, worlds)
            says_one[world] += ratio > 0
            distances.append(apart)
            bound = max(bound, poll.attribute_mu)
    alpha = (1 - confidence) / 4  # four one-sided bounds hold together
    (false_low, false_high), (true_low, true_high) = (proportion_bounds(said, half, alpha) for said in says_one)
    rates = [said / half for said in says_one]
    return TargetFigures(
        advantage=Estimate(rates[1] - rates[0], true_low - false_high, true_high - false_low, confidence),
        accuracy=(rates[1] + 1 - rates[0]) / 2,
        bound=gaussian_advantage(bound),
        reached=float(np.mean([gaussian_advantage(apart) for apart in distances])),
        repetitions=2 * half,
    )


@dataclass(frozen=True, eq=False)
class DeviceFigures:
    """What the server reads of each device's people, without secure aggregation.

    Attributes:
        counts: estimated people of each value of u, (devices, K).
        accuracy: share of devices whose commonest value was named, with its interval.
        prior: share of devices that the commonest answer fits.
        error: mean absolute error of the estimated counts, in people.
    """

    counts: FloatArray
    accuracy: Estimate
    prior: float
    error: float


def read_devices(poll: Poll) -> FloatArray:
    """Return each device's people by value of u, from all answers whose rows stand for values, by least variance."""
    told = [heard for heard in poll.heard if heard.question.values and heard.parts]
    if not told:
        raise InputError("attack on counts: no device's own answer tells u; hold the poll with listen=True")
    values = told[0].question.values
    weights = [1 / (heard.sum.size * heard.noise**2) if heard.noise else 1.0 for heard in told]
    found = sum(
        weight * np.array([part.reshape(-1, values, part.shape[1]).sum(axis=(0, 2)) for part in heard.parts])
        for weight, heard in zip(weights, told, strict=True)
    )
    return np.asarray(found / np.sum(weights), dtype=np.float64)


def attack_devices(poll: Poll, u: Sequence[IntArray], confidence: float = 0.95) -> DeviceFigures:
    """Name the commonest value of u on every device, and score it against the truth `u` of each device's people."""
    counts = read_devices(poll)
    true = np.array([np.bincount(own, minlength=counts.shape[1]) for own in u])
    if len(true) != len(counts):
        raise InputError(f"attack on counts: {len(counts)} devices answered, but u is given for {len(true)}")
    right = int((counts.argmax(axis=1) == true.argmax(axis=1)).sum())
    low, high = proportion_bounds(right, len(true), (1 - confidence) / 2)
    return DeviceFigures(
        counts=counts,
        accuracy=Estimate(right / len(true), low, high, confidence),
        prior=float(np.bincount(true.argmax(axis=1)).max() / len(true)),
        error=float(np.abs(counts - true).mean()),
    )
