"""A poll: the server asks every device one question at a time, and receives the noisy sum of their answers.

One person's part of an answer is an outer product l rᵀ of two vectors that the device computes from the person's
record; it is scaled down to norm `bound` if it is longer. Counts, sums of coordinates and second moments all have this
form.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import ndtr

from fedveil.certificates.differential_privacy import gaussian_epsilon, gaussian_noise_multiplier
from fedveil.core.arrays import FloatArray
from fedveil.core.errors import InputError

Device = Any
"""A device's people, in whatever form the questions read."""
DELTA = 1e-5
_BYTES = 8


@dataclass(frozen=True, eq=False)
class Question:
    """What every device is asked.

    Attributes:
        about: what it asks, in words.
        factors: maps a device's people to their l and r, (people, a) and (people, b).
        bound: the largest norm that a person's l rᵀ may have.
        moved: how far a different u of one person can move the answer, in units of the bound: 0 if u is not read, √2 if
            it decides only which rows of the answer a person counts in, otherwise 2.
        values: K if the answer's rows are (anything × value of u) and r sums to 1: the answer then reveals how many
            people of each value there are.
    """

    about: str
    factors: Callable[[Device], tuple[FloatArray, FloatArray]]
    bound: float = 1.0
    moved: float = 2.0
    values: int = 0

    def answer(self, device: Device) -> FloatArray:
        """Return the device's sum over its people, each clipped."""
        left, right = self.factors(device)
        length = np.linalg.norm(left, axis=1) * np.linalg.norm(right, axis=1)
        scale = np.minimum(1.0, self.bound / np.maximum(length, 1e-300))
        return np.asarray((left * scale[:, None]).T @ right, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Heard:
    """One answered question.

    Attributes:
        question: the question.
        noise: the standard deviation of the noise on the sum.
        sum: the sum as the server receives it.
        parts: each device's noisy part, if the poll keeps them (`Poll.listen`).
        step: how many steps devices had computed by themselves before this question (`Poll.each`).
    """

    question: Question
    noise: float
    sum: FloatArray
    parts: tuple[FloatArray, ...]
    step: int


@dataclass(eq=False)
class Poll:
    """Questions to devices under one budget.

    Symbols: question q gets the share s_q of the budget μ², Σ s_q ≤ 1; the standard deviation of its noise is
    σ_q = bound_q/(μ √s_q).
    Guarantee, without subsampling, and also if questions depend on earlier answers: all sums together are μ√(Σ s_q)-GDP
    for adding or removing one person (Dong, Roth and Su 2022; Gaussian composition is exact), and `epsilon` is their
    exact ε. For a change of one person's u, it is μ√(Σ s_q m_q²) with m_q = `Question.moved`: `attribute_mu`. The
    people of a device with k people are together protected k times less.
    Each of D devices adds N(0, σ_q²/D). The sum is therefore only as noisy as it must be if no device withholds its
    part, and the guarantee is against observers of sums (secure aggregation). With `local`, each adds N(0, σ_q²): the
    guarantee then holds against observers of every single answer, and sums are √D times as noisy.

    Attributes:
        devices: the people of each device.
        mu: μ; infinite for exact sums.
        rng: the generator of all noise.
        local: whether each device's answer is protected by itself.
        listen: whether `heard` keeps each device's part, as a server without secure aggregation can.
        heard: every answered question.
        steps: what devices computed by themselves between questions, from what the server published.
        spent, attribute_spent: Σ s_q and Σ s_q m_q² so far.
    """

    devices: Sequence[Device]
    mu: float
    rng: np.random.Generator
    local: bool = False
    listen: bool = False
    heard: list[Heard] = field(default_factory=list)
    steps: list[Callable[[Device], Device]] = field(default_factory=list)
    spent: float = 0.0
    attribute_spent: float = 0.0

    def __post_init__(self) -> None:
        if not self.devices:
            raise InputError("poll: there is no device to ask")
        if not self.mu > 0:
            raise InputError(f"poll: the budget must be above 0, got {self.mu}")

    def ask(self, question: Question, share: float) -> FloatArray:
        """Ask every device a question, at a share of the budget, and return the sum."""
        if not share > 0 or self.spent + share > 1 + 1e-9:
            raise InputError(
                f"poll: {question.about} asks for {share:.3g} of the budget, but {1 - self.spent:.3g} is left"
            )
        self.spent += share
        self.attribute_spent += share * question.moved**2
        noise = 0.0 if math.isinf(self.mu) else question.bound / (self.mu * math.sqrt(share))
        each = noise if self.local else noise / math.sqrt(len(self.devices))
        parts = []
        for device in self.devices:
            exact = question.answer(device)
            parts.append(exact if noise == 0 else exact + self.rng.normal(0.0, each, exact.shape))
        total = np.asarray(np.sum(parts, axis=0), dtype=np.float64)
        self.heard.append(
            Heard(question, each * math.sqrt(len(parts)), total, tuple(parts) if self.listen else (), len(self.steps))
        )
        return total

    def each(self, step: Callable[[Device], Device]) -> None:
        """Let every device compute something by itself; nothing leaves it."""
        self.devices = [step(device) for device in self.devices]
        self.steps.append(step)

    def epsilon(self, delta: float = DELTA) -> float:
        """Return the exact ε of all sums for adding or removing one person."""
        return float("inf") if math.isinf(self.mu) else gaussian_epsilon(1 / (self.mu * math.sqrt(self.spent)), delta)

    @property
    def attribute_mu(self) -> float:
        """How far, in standard deviations of the noise, a different u of one person can move all sums together."""
        return self.mu * math.sqrt(self.attribute_spent)

    @property
    def upload(self) -> int:
        """Bytes that one device sends in total, eight per number."""
        return sum(_BYTES * heard.sum.size for heard in self.heard)


def budget(epsilon: float, delta: float = DELTA) -> float:
    """Return the μ whose ε at δ is at most this, to 0.1%; an infinite ε means exact sums.

    >>> round(budget(8.0), 2), budget(float("inf"))
    (1.67, inf)
    """
    if not epsilon > 0:
        raise InputError(f"poll: epsilon must be above 0, got {epsilon}")
    return float("inf") if math.isinf(epsilon) else 1 / gaussian_noise_multiplier(epsilon, delta)


def gaussian_advantage(mu: float) -> float:
    """Return 2Φ(μ/2) − 1, the largest advantage in distinguishing two worlds that are μ standard deviations apart."""
    return float(2 * ndtr(mu / 2) - 1)
