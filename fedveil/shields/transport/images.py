"""Transport of images: one of the codebook's pictures in a common colour, or the picture itself with its moments moved.

Two forms, both fitted by a poll, no label read.
`codes`: a person draws a code so that every u uses each equally often; what is shown is the code's mean picture. All
that is shown is the code, so `certify_codes` covers it.
`moments`: coordinates z are moved by z ↦ m + A_u (z − m_u), the optimal transport between Gaussians with the moments of
value u and of all values alike, A_u = Σ_u^(−1/2) (Σ_u^(1/2) Σ Σ_u^(1/2))^(1/2) Σ_u^(−1/2) (Gelbrich 1990). Means and
covariances then tell nothing about u; whatever is beyond them may, and nothing is certified.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch

from fedveil.core.arrays import FloatArray, IntArray
from fedveil.core.errors import InputError
from fedveil.core.randomness import numpy_generator
from fedveil.shields.transport.alignment import Alignment
from fedveil.shields.transport.chart import Moved
from fedveil.shields.transport.codebook import squared
from fedveil.shields.transport.federated import Learned, Placed, Plan, learn
from fedveil.shields.transport.pictures import Embedding, Pictures, learn_embedding
from fedveil.shields.transport.poll import Poll, Question, budget
from fedveil.shields.transport.recipe import Recipe

FORMS = ("codes", "moments")
_EMBEDDING = 0.3
"""The embedding's share of the budget."""
_UNIT = 0.2
"""Of the temperature: a picture's variance is at most 1, a table's about the number of its columns."""
_LEAST_VARIANCE = 0.1
"""Of a direction, relative to the mean one: where people hardly vary, a map is made by chance, and tells u."""


@dataclass(frozen=True, eq=False)
class ImageChart:
    """Fitted on training people; applied by a device to its own image and its own u.

    Attributes:
        embedding: how an image becomes coordinates.
        shape: (channels, height, width).
        centres: the codes' coordinates; none where moments are moved.
        alignment: potentials b[0, u, code].
        pictures: what is shown of each code, an image each.
        maps: where moments are moved, for each u the wanted mean, its own mean m_u, and A_u.
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
        nobody = np.zeros(len(x), dtype=np.int64)
        if self.maps is not None:
            m, own, maps = self.maps
            moved = m[u] + np.einsum("nij,nj->ni", maps[u], z - own[u])
            return Moved(self.embedding.shown(self.embedding.picture(moved), self.shape), [], nobody, nobody)
        assert self.alignment is not None
        uniform = torch.rand(len(x), generator=generator, dtype=torch.float64)
        codes = self.alignment.move(squared(torch.from_numpy(z).float(), self.centres), nobody, u, uniform)
        return Moved(self.pictures[codes], [], nobody, codes)


def fit_images(
    x: npt.NDArray[np.floating],
    u: IntArray,
    values: int,
    recipe: Recipe,
    seed: int,
    epsilon: float = math.inf,
    form: str = "codes",
    components: int = 40,
) -> ImageChart:
    """Fit on training people; all of them on one device is the same as each on their own."""
    poll = Poll([Pictures(x, u)], budget(epsilon), numpy_generator(seed, "transport noise"))
    return learn_images(poll, x.shape[1:], values, recipe, numpy_generator(seed, "transport"), form, components)


def learn_images(
    poll: Poll,
    shape: tuple[int, ...],
    values: int,
    recipe: Recipe,
    rng: np.random.Generator,
    form: str = "codes",
    components: int = 40,
) -> ImageChart:
    """Learn from a poll of `Pictures`."""
    if form not in FORMS:
        raise InputError(f"transport: images must be one of {', '.join(FORMS)}, got {form!r}")
    embedding = learn_embedding(poll, shape, values, components, rng, _EMBEDDING)

    def place(people: Pictures) -> Placed:
        grey = embedding.grey(people.x, people.u)
        none = np.zeros(len(people.u), dtype=np.int64)
        return Placed(embedding.coordinates(grey), none, people.u, grey, reads_u=True)

    poll.each(place)
    if form == "moments":
        maps = _moments(poll, values, len(embedding.axes), recipe.strength)
        none = torch.zeros(0, len(embedding.axes))
        return ImageChart(embedding, shape, none, None, np.zeros(0), maps, len(poll.heard), poll.epsilon())
    found = _codes(poll, embedding, values, recipe, rng)
    return ImageChart(
        embedding=embedding,
        shape=shape,
        centres=torch.from_numpy(found.centres).float(),
        alignment=Alignment(torch.from_numpy(found.b).float(), _UNIT * recipe.temperature),
        pictures=embedding.shown(found.shown, shape),
        maps=None,
        releases=len(poll.heard),
        epsilon=poll.epsilon(),
    )


def _codes(poll: Poll, embedding: Embedding, values: int, recipe: Recipe, rng: np.random.Generator) -> Learned:
    """Learn codes from starts drawn at random with the coordinates' own spread."""
    left = 1 - _EMBEDDING
    plan = Plan(
        rounds=8,
        questions=recipe.questions,
        temperature=_UNIT * recipe.temperature,
        strength=recipe.strength,
        codebook=0.3 * left,
        wanted=0.1 * left,
        fill=0.4 * left,
        shown=0.1 * left,
    )
    _, mean, spread = _spread(poll, values, len(embedding.axes), 0.1 * left)
    middle, common = mean.mean(axis=0), spread.mean(axis=0) + np.cov(mean.T, bias=True)
    start = middle + rng.normal(size=(recipe.codes, len(middle))) @ _power(common, 0.5, 0.0)
    return learn(poll, start, 2.0, (1, values), plan, 2.0 * math.sqrt(len(embedding.mean)))


def _spread(poll: Poll, values: int, size: int, share: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Ask for the people, mean and covariance of each value's coordinates, which are at most 2 long."""
    reach = 2.0

    def factors(people: Placed) -> tuple[FloatArray, FloatArray]:
        short = (
            people.points * np.minimum(1.0, reach / np.maximum(np.linalg.norm(people.points, axis=1), 1e-12))[:, None]
        )
        with_one = np.hstack([np.ones((len(short), 1)), short / reach])
        left = np.eye(values)[people.u][:, :, None] * with_one[:, None, :]
        return left.reshape(len(short), -1), with_one

    question = Question("moments of coordinates", factors, 2.0, moved=math.sqrt(2))
    heard = poll.ask(question, share).reshape(values, 1 + size, 1 + size)
    people = np.maximum(heard[:, :1, :1], 1.0)
    mean = reach * heard[:, 0, 1:] / people[:, 0]
    second = reach**2 * heard[:, 1:, 1:] / people
    spread = (second + second.transpose(0, 2, 1)) / 2 - mean[:, :, None] * mean[:, None, :]
    return people[:, 0, 0], mean, spread


def _moments(poll: Poll, values: int, size: int, strength: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return s·m + (1 − s)·m_u, m_u and s·A_u + (1 − s)·I: strength s = 0 leaves coordinates as they are.

    A covariance's distance from the common one is shrunk by the part that chance alone makes, (k² + k)/n_u of its
    squared length in units of the common one (after James and Stein 1961): a map of its own for every u, made by
    chance, would itself tell u.
    """
    people, mean, spread = _spread(poll, values, size, 1 - _EMBEDDING)
    floor = _LEAST_VARIANCE * max(float(np.trace(spread.mean(axis=0))) / size, 1e-12)
    common = _power(spread.mean(axis=0), 1.0, floor)
    root, inverse_root = _power(common, 0.5, floor), _power(common, -0.5, floor)
    maps = []
    for own, crowd in zip(spread, people, strict=True):
        apart = inverse_root @ own @ inverse_root - np.eye(size)
        chance = (size**2 + size) / crowd / max(float((apart**2).sum()), 1e-12)
        steady = root @ (np.eye(size) + max(0.0, 1 - chance) * apart) @ root
        half, inverse = _power(steady, 0.5, floor), _power(steady, -0.5, floor)
        maps.append(inverse @ _power(half @ common @ half, 0.5, 0.0) @ inverse)
    m = strength * mean.mean(axis=0) + (1 - strength) * mean
    return m, mean, strength * np.array(maps) + (1 - strength) * np.eye(size)


def _power(matrix: FloatArray, exponent: float, floor: float) -> FloatArray:
    """Return a power of a symmetric matrix whose eigenvalues are raised to at least the floor."""
    values, axes = np.linalg.eigh((matrix + matrix.T) / 2)
    return np.asarray((axes * np.maximum(values, floor) ** exponent) @ axes.T, dtype=np.float64)
