"""CIFAR-10: small photographs in ten classes; does one show an animal?"""

from __future__ import annotations

import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedveil.core.arrays import IntArray
from fedveil.core.errors import InputError
from fedveil.data.attribute import Attribute
from fedveil.data.attribute_data import AttributeData, Split, random_part, random_split
from fedveil.data.locate import locate
from fedveil.data.pickled_arrays import read_pickled_arrays
from fedveil.data.source import PublishedFile, Source

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
ANIMALS = frozenset({"bird", "cat", "deer", "dog", "frog", "horse"})
_ARCHIVE = "cifar-10-python.tar.gz"
_FOLDER = "cifar-10-batches-py"
_TRAIN = tuple(f"data_batch_{number}" for number in range(1, 6))
_TEST = "test_batch"

Bytes = npt.NDArray[np.uint8]


class CIFAR10(Source):
    """60,000 photographs of 3 × 32 × 32 in [0, 1]; the task is the class, the attribute whether it is an animal.

    The class determines the attribute, so an attacker who is given a perfect classifier's answers knows it: the floor
    of this pair is 1. The published test batch is kept; validation records are drawn from training. A folder with the
    unpacked batches serves as well as the archive, and may lack some of data_batch_2 to 5: `facts["batches"]` names
    those that were read. The batches are Python pickles, which can hold programs: ours are read by a parser that makes
    arrays, numbers, texts, lists and dictionaries and nothing else.

    All images take 740 MB as float32; `limit` takes a random part.
    """

    name = "cifar10"
    description = "CIFAR-10 photographs: the class; an animal or not"
    licence = "none stated; published for research"
    citation = "Krizhevsky (2009). Learning Multiple Layers of Features from Tiny Images"
    attributes = ("animal",)
    targets = ("class",)
    folder = _FOLDER
    files = (
        PublishedFile(
            _ARCHIVE,
            "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
            "sha256:6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce",
        ),
    )
    unpacked = (_TRAIN[0], _TEST)

    def read(
        self,
        target: str | None,
        sensitive: Sequence[str],
        seed: int,
        validation: float = 0.1,
        limit: int | None = None,
    ) -> AttributeData:
        """Read the batches.

        Args:
            target: "class" or None.
            sensitive: "animal".
            seed: of the validation records' choice and of the part.
            validation: their share of the training batches.
            limit: how many records to take, at random; all by default.
        """
        found = locate(self)
        batches = read_batches(found.files)
        train = sum(len(labels) for name, (_, labels) in batches.items() if name != _TEST)
        images = np.concatenate([images for images, _ in batches.values()])
        labels = np.concatenate([labels for _, labels in batches.values()])
        split = np.full(len(labels), Split.TEST, dtype=np.int8)
        split[:train] = random_split(train, seed=seed, validation=validation, test=0.0, strata=labels[:train])
        rows = random_part(len(labels), limit, seed, self.name)
        animal = np.array([name in ANIMALS for name in CLASSES], dtype=np.int64)
        return AttributeData(
            x=images[rows].reshape(-1, 3, 32, 32).astype(np.float32) / np.float32(255),
            attributes={"animal": Attribute("animal", animal[labels[rows]], ("no animal", "animal"))},
            split=split[rows],
            y=Attribute("class", labels[rows], CLASSES) if target else None,
            name=self.name,
            facts={"found_in": found.where, "batches": list(batches)},
        )


def read_batches(files: Mapping[str, Path]) -> dict[str, tuple[Bytes, IntArray]]:
    """Read the batches, training first, from a folder's files or from the published archive."""
    names = (*_TRAIN, _TEST)
    if _ARCHIVE not in files:
        folder = next(iter(files.values())).parent
        here = [name for name in names if (folder / name).is_file()]
        return {name: _batch(_bytes(folder / name), folder / name) for name in here}
    path = files[_ARCHIVE]
    try:
        with tarfile.open(path) as archive:
            inside = {name: archive.extractfile(f"{_FOLDER}/{name}") for name in names}
            parts = {name: b"" if part is None else part.read() for name, part in inside.items()}
    except (OSError, EOFError, KeyError, tarfile.TarError) as fault:
        raise InputError(f"{path}: not the whole CIFAR-10 archive ({fault}); fetch it again") from fault
    return {name: _batch(part, path / name) for name, part in parts.items()}


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as fault:
        raise InputError(f"{path}: cannot be read ({fault.strerror or fault})") from fault


def _batch(told: bytes, path: Path) -> tuple[Bytes, IntArray]:
    """Return a batch's images, (n, 3072), and labels."""
    held: Any = read_pickled_arrays(told, str(path))
    images: Any = held.get("data") if isinstance(held, dict) else None
    labels: Any = held.get("labels") if isinstance(held, dict) else None
    fits = isinstance(images, np.ndarray) and images.shape[1:] == (3072,) and isinstance(labels, list)
    if not fits or len(labels) != len(images) or not all(type(label) is int and 0 <= label < 10 for label in labels):
        raise InputError(f"{path}: is no batch of CIFAR-10 (3,072 bytes each, labels from 0 to 9); fetch it again")
    return images, np.array(labels, dtype=np.int64)
