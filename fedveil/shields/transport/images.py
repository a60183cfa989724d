"""Transport of images: one of the codebook's pictures in a common colour, or the picture itself with moved moments.

An image of value u, channels first, becomes grey by g = w_u·(x − c_u), pixel by pixel: c_u is the mean colour of value
u and w_u the direction in which its pixels' colours vary most, scaled to variance 1. This removes the colours that
depend on u in closed form. A grey picture's coordinates are its principal components over people of all values
(`Embedding`). Everything is fitted by a poll; no label is read. There are two forms:

`codes`: a person draws a code so that every u uses each code equally often, and the code's mean picture is shown.
Nothing is shown but the code, so `certify_codes` covers it.
`moments`: coordinates z are moved by z ↦ m + A_u (z − m_u), the optimal transport between Gaussians with the moments of
value u and with the average moments, A_u = Σ_u^(−1/2) (Σ_u^(1/2) Σ Σ_u^(1/2))^(1/2) Σ_u^(−1/2) (Gelbrich 1990). Means
and covariances then reveal nothing about u; anything beyond them may, and nothing is certified.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
import torch

from fedveil.core.arrays import FloatArray, IntArray
from fedveil.core.errors import InputError
from fedveil.core.randomness import numpy_generator
from fedveil.shields.transport.alignment import Alignment
from fedveil.shields.transport.chart import Moved
from fedveil.shields.transport.codebook import squared
from fedveil.shields.transport.federated import Learned, PlacedPeople, Plan, learn
from fedveil.shields.transport.poll import Poll, Question, budget
from fedveil.shields.transport.settings import MapSettings

Form = Literal["codes", "moments"]
_EMBEDDING = 0.3
"""The embedding's share of the budget."""
_UNIT = 0.2
"""The unit of the temperature: a picture's variance is at most 1, a table's about the number of its columns."""
_LEAST_VARIANCE = 0.1
"""The least variance of a direction relative to the mean: where people hardly vary, the map would fit chance."""
_TURNS = 4
"""Steps of orthogonal iteration for the principal components."""
_REACH = 2.0
"""The longest grey picture has norm √pixels times this, in standard deviations; a longer one is clipped."""


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
        direction: w_u, (values, channels), with signs that agree with brightness.
        common: mean colour and standard deviation of each channel, averaged over values: the colours in which pictures
            are shown.
        mean, axes: the mean of the grey pictures, (pixels), and their principal axes, (k, pixels), which are
            orthonormal.
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
        """Return the grey pictures that have these coordinates."""
        return np.asarray(self.mean + math.sqrt(len(self.mean)) * coordinates @ self.axes, dtype=np.float64)

    def shown(self, grey: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        """Return images in the common colours, clipped to [0, 1], of the shape (channels, height, width)."""
        mean, deviation = self.common
        image = mean[:, None] + deviation[:, None] * grey[:, None, :]
        return np.asarray(np.clip(image, 0.0, 1.0).reshape(len(grey), *shape), dtype=np.float64)


def learn_embedding(
    poll: Poll, shape: tuple[int, ...], values: int, size: int, rng: np.random.Generator, share: float
) -> Embedding:
    """Learn from a poll of `Pictures`: one question about colours, one about the mean, four about the axes.

    Args:
        poll: its devices hold `Pictures`, before and afterwards.
        shape: (channels, height, width).
        values: how many values u has.
        size: how many principal components to learn.
        rng: draws the first axes.
        share: the share of the budget for all of these questions.
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


@dataclass(frozen=True, eq=False)
class ImageChart:
    """A map fitted on training people, which a device applies to its image and the image's u.

    Attributes:
        embedding: how an image becomes coordinates.
        shape: (channels, height, width).
        centres: the codes' coordinates; none if moments are moved.
        alignment: potentials b[0, u, code].
        pictures: what is shown for each code, an image each.
        maps: if moments are moved, the wanted mean, the current mean m_u, and A_u, for each u.
        releases, epsilon: as in `Chart`.
    """

    embedding: Embedding
    shape: tuple[int, ...]
    centres: torch.Tensor
    alignment: Alignment | None
    pictures: FloatArray
    maps: tuple[FloatArray, FloatArray, FloatArray] | None
    releases: int
    epsilon: float
    kept: tuple[()] = field(default=())

    def move(self, x: npt.NDArray[np.floating], u: IntArray, generator: torch.Generator) -> Moved:
        """Return what is shown of these people; randomness comes from the device's generator."""
        if x.shape[1:] != self.shape:
            raise InputError(f"transport: fitted on images of shape {self.shape}, got {x.shape[1:]}")
        z = self.embedding.coordinates(self.embedding.grey(x, u))
        zeros = np.zeros(len(x), dtype=np.int64)
        if self.maps is not None:
            wanted_mean, mean, maps = self.maps
            moved = wanted_mean[u] + np.einsum("nij,nj->ni", maps[u], z - mean[u])
            return Moved(self.embedding.shown(self.embedding.picture(moved), self.shape), [], zeros, zeros)
        assert self.alignment is not None
        uniform = torch.rand(len(x), generator=generator, dtype=torch.float64)
        codes = self.alignment.move(squared(torch.from_numpy(z).float(), self.centres), zeros, u, uniform)
        return Moved(self.pictures[codes], [], zeros, codes)


def fit_images(
    x: npt.NDArray[np.floating],
    u: IntArray,
    values: int,
    settings: MapSettings,
    seed: int,
    epsilon: float = math.inf,
    form: Form = "codes",
    components: int = 40,
) -> ImageChart:
    """Fit on training people; it makes no difference how they are divided among devices."""
    poll = Poll([Pictures(x, u)], budget(epsilon), numpy_generator(seed, "transport noise"))
    return learn_images(poll, x.shape[1:], values, settings, numpy_generator(seed, "transport"), form, components)


def learn_images(
    poll: Poll,
    shape: tuple[int, ...],
    values: int,
    settings: MapSettings,
    rng: np.random.Generator,
    form: Form = "codes",
    components: int = 40,
) -> ImageChart:
    """Learn from a poll of `Pictures`."""
    if form not in get_args(Form):
        raise InputError(f"transport: images must be one of {', '.join(get_args(Form))}, got {form!r}")
    embedding = learn_embedding(poll, shape, values, components, rng, _EMBEDDING)

    def place(people: Pictures) -> PlacedPeople:
        grey = embedding.grey(people.x, people.u)
        stratum = np.zeros(len(people.u), dtype=np.int64)
        return PlacedPeople(embedding.coordinates(grey), stratum, people.u, grey, reads_u=True)

    poll.each(place)
    if form == "moments":
        maps = _moments(poll, values, len(embedding.axes), settings.strength)
        no_codes = torch.zeros(0, len(embedding.axes))
        return ImageChart(embedding, shape, no_codes, None, np.zeros(0), maps, len(poll.heard), poll.epsilon())
    learned = _codes(poll, embedding, values, settings, rng)
    return ImageChart(
        embedding=embedding,
        shape=shape,
        centres=torch.from_numpy(learned.centres).float(),
        alignment=Alignment(torch.from_numpy(learned.b).float(), _UNIT * settings.temperature),
        pictures=embedding.shown(learned.shown, shape),
        maps=None,
        releases=len(poll.heard),
        epsilon=poll.epsilon(),
    )


def _codes(poll: Poll, embedding: Embedding, values: int, settings: MapSettings, rng: np.random.Generator) -> Learned:
    """Learn codes, starting from points drawn with the mean and covariance of the coordinates."""
    remaining = 1 - _EMBEDDING
    plan = Plan(
        rounds=8,
        questions=settings.questions,
        temperature=_UNIT * settings.temperature,
        strength=settings.strength,
        codebook=0.3 * remaining,
        wanted=0.1 * remaining,
        fill=0.4 * remaining,
        shown=0.1 * remaining,
    )
    _, mean, spread = _spread(poll, values, len(embedding.axes), 0.1 * remaining)
    middle, common = mean.mean(axis=0), spread.mean(axis=0) + np.cov(mean.T, bias=True)
    start = middle + rng.normal(size=(settings.codes, len(middle))) @ _power(common, 0.5, 0.0)
    return learn(poll, start, 2.0, (1, values), plan, 2.0 * math.sqrt(len(embedding.mean)))


def _spread(poll: Poll, values: int, size: int, share: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Ask how many people have each value, and for the mean and covariance of their coordinates, of norm at most 2."""
    reach = 2.0

    def factors(people: PlacedPeople) -> tuple[FloatArray, FloatArray]:
        clipped = (
            people.points * np.minimum(1.0, reach / np.maximum(np.linalg.norm(people.points, axis=1), 1e-12))[:, None]
        )
        with_one = np.hstack([np.ones((len(clipped), 1)), clipped / reach])
        left = np.eye(values)[people.u][:, :, None] * with_one[:, None, :]
        return left.reshape(len(clipped), -1), with_one

    question = Question("moments of coordinates", factors, 2.0, moved=math.sqrt(2))
    heard = poll.ask(question, share).reshape(values, 1 + size, 1 + size)
    people = np.maximum(heard[:, :1, :1], 1.0)
    mean = reach * heard[:, 0, 1:] / people[:, 0]
    second = reach**2 * heard[:, 1:, 1:] / people
    spread = (second + second.transpose(0, 2, 1)) / 2 - mean[:, :, None] * mean[:, None, :]
    return people[:, 0, 0], mean, spread


def _moments(poll: Poll, values: int, size: int, strength: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return s·m + (1 − s)·m_u, m_u and s·A_u + (1 − s)·I: strength s = 0 leaves coordinates unchanged.

    A covariance's difference from the common one is shrunk by the part that is due to chance alone, (k² + k)/n_u of its
    squared length in units of the common one (after James and Stein 1961): maps
    that differ between values of u only by chance would themselves reveal u.
    """
    people, mean, spread = _spread(poll, values, size, 1 - _EMBEDDING)
    floor = _LEAST_VARIANCE * max(float(np.trace(spread.mean(axis=0))) / size, 1e-12)
    common = _power(spread.mean(axis=0), 1.0, floor)
    root, inverse_root = _power(common, 0.5, floor), _power(common, -0.5, floor)
    maps = []
    for covariance, count in zip(spread, people, strict=True):
        difference = inverse_root @ covariance @ inverse_root - np.eye(size)
        chance = (size**2 + size) / count / max(float((difference**2).sum()), 1e-12)
        shrunk = root @ (np.eye(size) + max(0.0, 1 - chance) * difference) @ root
        half, inverse = _power(shrunk, 0.5, floor), _power(shrunk, -0.5, floor)
        maps.append(inverse @ _power(half @ common @ half, 0.5, 0.0) @ inverse)
    wanted_mean = strength * mean.mean(axis=0) + (1 - strength) * mean
    return wanted_mean, mean, strength * np.array(maps) + (1 - strength) * np.eye(size)


def _power(matrix: FloatArray, exponent: float, floor: float) -> FloatArray:
    """Return a power of a symmetric matrix whose eigenvalues are raised to at least the floor."""
    values, axes = np.linalg.eigh((matrix + matrix.T) / 2)
    return np.asarray((axes * np.maximum(values, floor) ** exponent) @ axes.T, dtype=np.float64)
