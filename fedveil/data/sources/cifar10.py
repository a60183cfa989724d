"""CIFAR-10: small photographs in ten classes; the attribute is whether a photograph shows an animal.

The published batches are Python pickles. A pickle is a program: unpickling it may run whatever its author wrote. Here
every name that a pickle refers to is refused, except the three with which numpy writes arrays. These three are replaced
by stand-ins that only record what they are given, so that numpy itself never sees a data type that the pickle
describes. Numbers, text, lists and dictionaries need no names.
"""

from __future__ import annotations

import io
import math
import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedveil.core.arrays import IntArray
from fedveil.core.errors import InputError
from fedveil.data.archives import read_members
from fedveil.data.attribute import Attribute
from fedveil.data.attribute_data import AttributeData, Split
from fedveil.data.locate import locate
from fedveil.data.source import PublishedFile, Source
from fedveil.data.splits import random_part, random_split

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
ANIMALS = frozenset({"bird", "cat", "deer", "dog", "frog", "horse"})
_ARCHIVE = "cifar-10-python.tar.gz"
_FOLDER = "cifar-10-batches-py"
_TRAIN = tuple(f"data_batch_{number}" for number in range(1, 6))
_TEST = "test_batch"
_MOST_PICKLED = 256 * 2**20
"""A larger pickle, in bytes, is not read."""

Bytes = npt.NDArray[np.uint8]


class CIFAR10(Source):
    """60,000 photographs of 3 × 32 × 32 in [0, 1]; the task is the class, the attribute whether it is an animal.

    The class determines the attribute, so an attacker who sees a perfect classifier's answers knows it: no defence that
    preserves the class can push attackers below an accuracy of 1. The published test batch is kept; validation records
    are drawn from the training batches. A folder with the unpacked batches can replace the archive, and may lack some
    of data_batch_2 to 5: `facts["batches"]` names those that were read. Batches are read by a parser that builds arrays
    of bytes, numbers, text, lists and dictionaries, and refuses everything else.

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
            seed: for the choice of validation records, and for the random part.
            validation: share of validation records among the training batches.
            limit: how many records to take, at random (default: all).
        """
        located = locate(self)
        batches = read_batches(located.files)
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
            facts={"found_in": located.where, "batches": list(batches)},
        )


def read_batches(files: Mapping[str, Path]) -> dict[str, tuple[Bytes, IntArray]]:
    """Read the batches, training first, from a folder's files or from the published archive."""
    folder = next(iter(files.values())).parent
    names = [name for name in (*_TRAIN, _TEST) if _ARCHIVE in files or (folder / name).is_file()]
    container = files.get(_ARCHIVE, folder)
    contents = dict(read_members(container, _FOLDER, names))
    return {name: _batch(contents[index], container / name) for index, name in enumerate(names)}


def _batch(content: bytes, path: Path) -> tuple[Bytes, IntArray]:
    """Return a batch's images, (n, 3072), and labels."""
    batch: Any = read_pickled_arrays(content, str(path))
    images: Any = batch.get("data") if isinstance(batch, dict) else None
    labels: Any = batch.get("labels") if isinstance(batch, dict) else None
    fits = isinstance(images, np.ndarray) and images.shape[1:] == (3072,) and isinstance(labels, list)
    if not fits or len(labels) != len(images) or not all(type(label) is int and 0 <= label < 10 for label in labels):
        raise InputError(f"{path}: is not a batch of CIFAR-10 (3,072 bytes each, labels from 0 to 9); fetch it again")
    return images, np.array(labels, dtype=np.int64)


class _Dtype:
    """Stands in for numpy.dtype; its further state (byte order) is irrelevant for single bytes."""

    def __init__(self, code: object = None, *further: object) -> None:
        self.code = code.decode("latin-1") if isinstance(code, bytes) else code

    def __setstate__(self, state: object) -> None:
        pass


class _Array:
    """Stands in for numpy.ndarray, and keeps the state that the pickle gives it."""

    state: Any = None

    def __setstate__(self, state: object) -> None:
        self.state = state


def _reconstruct(*arguments: object) -> _Array:
    return _Array()


_STAND_INS: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Dtype,
}


class _Reader(pickle.Unpickler):
    """Resolves the names of the stand-ins, and no others."""

    def find_class(self, module: str, name: str) -> Any:
        """Return the stand-in for a name that the pickle refers to."""
        if (module, name) not in _STAND_INS:
            raise pickle.UnpicklingError(f"it refers to {module}.{name}, which data does not need")
        return _STAND_INS[module, name]

    def persistent_load(self, key: object) -> Any:
        """Refuse references to objects outside the pickle."""
        raise pickle.UnpicklingError("it refers to something outside itself")


def read_pickled_arrays(content: bytes, where: str) -> Any:
    """Return the plain values and arrays of bytes in an untrusted pickle; anything else is refused, and no code is run.

    Keys of dictionaries that are bytes become text.

    Args:
        content: the pickle, from Python 2 or 3.
        where: its name in error messages.
    """
    if len(content) > _MOST_PICKLED:
        raise InputError(f"{where}: {len(content):,} bytes are more than any batch has; fetch it again")
    try:
        return _plain(_Reader(io.BytesIO(content), encoding="bytes").load())
    except Exception as fault:  # a broken pickle may fail in any way
        why = str(fault) or type(fault).__name__
        raise InputError(f"{where}: not a pickle of plain arrays ({' '.join(why.split())}); fetch it again") from fault


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {_text(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, _Array):
        return _bytes_of(value)
    if type(value) in (int, float, bool, str, bytes, type(None)):
        return value
    raise ValueError(f"it holds a {type(value).__name__.lstrip('_')}")


def _text(key: object) -> object:
    return key.decode("utf-8") if isinstance(key, bytes) else key


def _bytes_of(array: _Array) -> Bytes:
    _, shape, dtype, in_columns, raw = array.state
    if not isinstance(dtype, _Dtype) or dtype.code != "u1" or not isinstance(raw, bytes):
        raise ValueError("it holds an array of something other than bytes")
    if not all(type(size) is int and size >= 0 for size in shape) or math.prod(shape) != len(raw):
        raise ValueError(f"it holds {len(raw)} bytes for an array of shape {shape}")
    values = np.frombuffer(raw, dtype=np.uint8)
    return values.reshape(shape[::-1]).T if in_columns else values.reshape(shape)
