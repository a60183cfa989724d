"""Pictures without their u's colours: what an image is in coordinates that need no label, from bounded sums alone.

An image of value u, channels first, becomes grey by g = w_u·(x − c_u), pixel by pixel: c_u is the mean colour of value
u and w_u the direction in which its pixels' colours vary most, scaled to variance 1. So colours that u is made of are
taken away in closed form. The grey picture's coordinates are its principal components over people of all values.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedveil.core.arrays import FloatArray, IntArray
from fedveil.shields.transport.poll import Poll, Question

_TURNS = 4
"""Of orthogonal iteration for the principal components."""
_REACH = 2.0
"""Longest grey picture, in deviations: √pixels times this; a longer one is clipped."""


@dataclass(frozen=True, eq=False)
class Pictures:
    """A device's images in [0, 1], (people, channels, height, width), and u."""

    x: npt.NDArray[np.floating]
    u: IntArray


@dataclass(frozen=True, eq=False)
class Embedding:
    """How an image becomes coordinates.

    Attributes:
        colour: c_u, (values, channels).
        direction: w_u, (values, channels), of signs that agree with brightness.
        common: mean colour and deviation per channel over all values alike: the colours in which pictures are shown.
        mean, axes: of the grey pictures, (pixels) and (k, pixels); axes are orthonormal.
    """

    colour: FloatArray
    direction: FloatArray
    common: tuple[FloatArray, FloatArray]
    mean: FloatArray
    axes: FloatArray

    def grey(self, x: npt.NDArray[np.floating], u: IntArray) -> FloatArray:
        """Return grey pictures, (people, pixels)."""
        flat = x.reshape(len(x), x.shape[1], -1)
        return np.asarray(
            np.einsum("nc,ncp->np", self.direction[u], flat) - (self.direction * self.colour).sum(axis=1)[u, None],
            dtype=np.float64,
        )

    def coordinates(self, grey: FloatArray) -> FloatArray:
        """Return principal components, scaled so that a picture's mean squared length is at most 1."""
        return np.asarray((grey - self.mean) @ self.axes.T / math.sqrt(len(self.mean)), dtype=np.float64)

    def picture(self, coordinates: FloatArray) -> FloatArray:
        """Return the grey pictures that coordinates stand for."""
        return np.asarray(self.mean + math.sqrt(len(self.mean)) * coordinates @ self.axes, dtype=np.float64)

    def shown(self, grey: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        """Return images in the common colours, cut to [0, 1], of the shape (channels, height, width)."""
        mean, deviation = self.common
        image = mean[:, None] + deviation[:, None] * grey[:, None, :]
        return np.asarray(np.clip(image, 0.0, 1.0).reshape(len(grey), *shape), dtype=np.float64)


def learn_embedding(
    poll: Poll, shape: tuple[int, ...], values: int, size: int, rng: np.random.Generator, share: float
) -> Embedding:
    """Learn from a poll of `Pictures`: one question on colours, one on the mean, four on the axes.

    Args:
        poll: its devices hold `Pictures` now, and still do so afterwards.
        shape: (channels, height, width).
        values: of u.
        size: how many principal components.
        rng: of the axes' start.
        share: of the budget, for all of it.
    """
    colour, direction, common = _colours(poll, shape[0], values, share / 4)
    pixels = math.prod(shape[1:])
    plain = Embedding(colour, direction, common, np.zeros(pixels), np.zeros((0, pixels)))
    bound = _REACH * math.sqrt(pixels)

    def greys(people: Pictures) -> tuple[FloatArray, FloatArray]:
        return np.eye(values)[people.u], np.hstack(
            [np.ones((len(people.u), 1)), plain.grey(people.x, people.u) / bound]
        )

    heard = poll.ask(Question("mean picture of each value", greys, math.sqrt(2)), share / 4)
    people = np.maximum(heard[:, 0], 1.0)
    weight = people.min() / people
    means = bound * heard[:, 1:] / people[:, None]
    axes = np.linalg.qr(rng.normal(size=(pixels, min(size, pixels))))[0].T
    for turn in range(_TURNS):

        def onto(person: Pictures, now: FloatArray = axes) -> tuple[FloatArray, FloatArray]:
            rest = (plain.grey(person.x, person.u) - means[person.u]) / bound
            return rest * weight[person.u, None], rest @ now.T

        heard = poll.ask(Question(f"principal components, turn {turn + 1}", onto, 1.0), share / 2 / _TURNS)
        axes = np.linalg.qr(heard)[0].T
    return Embedding(colour, direction, common, means.mean(axis=0), axes)


def _colours(
    poll: Poll, channels: int, values: int, share: float
) -> tuple[FloatArray, FloatArray, tuple[FloatArray, FloatArray]]:
    """Ask for each value's mean colour and the second moments of its pixels' colours."""

    def moments(people: Pictures) -> tuple[FloatArray, FloatArray]:
        flat = people.x.reshape(len(people.x), channels, -1).astype(np.float64)
        second = np.einsum("ncp,ndp->ncd", flat, flat) / flat.shape[2]
        parts = [np.ones((len(flat), 1)), flat.mean(axis=2), second.reshape(len(flat), -1)]
        return np.eye(values)[people.u], np.hstack(parts)

    bound = math.sqrt(1 + channels + channels**2)
    heard = poll.ask(Question("colours of each value", moments, bound, moved=math.sqrt(2)), share)
    people = np.maximum(heard[:, :1], 1.0)
    mean = heard[:, 1 : 1 + channels] / people
    second = (heard[:, 1 + channels :] / people).reshape(values, channels, channels)
    spread = second - mean[:, :, None] * mean[:, None, :]
    direction = np.zeros((values, channels))
    for value in range(values):
        size, axes = np.linalg.eigh((spread[value] + spread[value].T) / 2)
        axis = axes[:, -1] * (1.0 if axes[:, -1].sum() >= 0 else -1.0)
        direction[value] = axis / math.sqrt(max(float(size[-1]), 1e-4))
    deviation = np.sqrt(np.maximum(np.diagonal(spread, axis1=1, axis2=2), 0.0)).mean(axis=0)
    return mean, direction, (mean.mean(axis=0), deviation)
