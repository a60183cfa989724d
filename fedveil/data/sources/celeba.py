"""CelebA: faces of celebrities; gender, age, smile, mouth, make-up and hair can each be the task or be protected."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from fedveil.core.arrays import IntArray
from fedveil.core.errors import InputError
from fedveil.data.archives import choose_container, read_pictures, reading_as
from fedveil.data.attribute import MISSING, Attribute
from fedveil.data.attribute_data import AttributeData
from fedveil.data.locate import locate
from fedveil.data.source import PublishedFile, Source
from fedveil.data.splits import random_part

_FOLDER = "img_align_celeba"
_ARCHIVE = "img_align_celeba.zip"
_LABELS = "list_attr_celeba.txt"
_PARTITION = "list_eval_partition.txt"
_PEOPLE = "identity_CelebA.txt"
_HAIR = {"Black_Hair": "black", "Blond_Hair": "blond", "Brown_Hair": "brown"}
_BINARY = {
    "gender": ("Male", ("female", "male")),
    "age": ("Young", ("old", "young")),
    "smiling": ("Smiling", ("no", "yes")),
    "mouth_open": ("Mouth_Slightly_Open", ("no", "yes")),
    "heavy_makeup": ("Heavy_Makeup", ("no", "yes")),
    "wavy_hair": ("Wavy_Hair", ("no", "yes")),
    "attractive": ("Attractive", ("no", "yes")),
}


def _published(name: str, drive: str, md5: str) -> PublishedFile:
    # The publisher's folder on Google Drive; `confirm` answers Drive's question whether to download a large file.
    address = f"https://drive.usercontent.google.com/download?id={drive}&export=download&confirm=t"
    return PublishedFile(name, address, f"md5:{md5}")


class CelebA(Source):
    """202,599 aligned faces of 10,177 people, the middle square resized to 3 × size × size.

    Each of gender, age (young or old), smiling, mouth_open, heavy_makeup, wavy_hair, attractive and hair (exactly one
    of black, blond and brown; others are left out and counted in `facts`) can be the task or be protected.
    The published partition into training, validation and test is kept. If identity_CelebA.txt lies beside the other
    lists, people are the groups.

    All faces take 2.5 GB at the default size; `limit` takes a random part.
    """

    name = "celeba"
    description = "CelebA faces: gender, age, smiling, make-up, hair and more, as task or attribute"
    licence = "non-commercial research only"
    citation = "Liu, Luo, Wang & Tang (2015). Deep Learning Face Attributes in the Wild"
    attributes = (*_BINARY, "hair")
    targets = (*_BINARY, "hair")
    folder = "celeba"
    files = (
        _published(_LABELS, "0B7EVK8r0v71pblRyaVFSWGxPY0U", "75e246fa4810816ffd6ee81facbd244c"),
        _published(_PARTITION, "0B7EVK8r0v71pY0NSMzRuSXJEVkk", "d32c9cbf5e040fd4025c592c306e6668"),
        _published(_PEOPLE, "1_ee_0u7vcNLOfNLegJRHmolfH5ICW-XS", "32bd1bd63d3c78cd57e08160ec5ed1e2"),
        _published(_ARCHIVE, "0B7EVK8r0v71pZjFTYXZWM3FlRnM", "00d2c5bc6d35e252742224ab0c1e8fcb"),
    )
    unpacked = (_LABELS, _PARTITION)

    def read(
        self,
        target: str | None,
        sensitive: Sequence[str],
        seed: int,
        size: int = 32,
        limit: int | None = None,
        centred: bool = False,
    ) -> AttributeData:
        """Read lists and faces.

        Args:
            target: gender, age, smiling, mouth_open, heavy_makeup, wavy_hair, attractive, hair or None.
            sensitive: any of the same.
            seed: for the random part.
            size: height and width of a face; the paper "Honest-but-Curious Nets" uses 64.
            limit: how many records to take, at random (default: all).
            centred: pixels in [−1, 1], as in that paper; else in [0, 1].
        """
        if not 8 <= size <= 178:
            raise InputError(f"{self.name}: size must lie between 8 and 178, the pictures' width, got {size}")
        located = locate(self)
        folder = located.folder
        container = choose_container(folder, _FOLDER, [_ARCHIVE])
        frame = read_labels(folder / _LABELS)
        parts = _column(folder / _PARTITION, frame.index)
        if not np.isin(parts, (0, 1, 2)).all():
            raise InputError(f"{folder / _PARTITION}: parts must be 0, 1 or 2; fetch it again")
        names = dict.fromkeys([*sensitive, *([target] if target else [])])
        labels = {name: _attribute(name, frame) for name in names}
        labelled = np.logical_and.reduce([label.known for label in labels.values()])
        rows = np.flatnonzero(labelled)
        rows = rows[random_part(len(rows), limit, seed, self.name)]
        people = folder / _PEOPLE
        return AttributeData(
            x=read_pictures(container, _FOLDER, frame.index[rows].tolist(), None, (size, size), centred=centred),
            attributes={name: labels[name].take(rows) for name in sensitive},
            split=parts[rows].astype(np.int8),
            y=labels[target].take(rows) if target else None,
            groups=_column(people, frame.index)[rows] if people.is_file() else None,
            name=self.name,
            facts={
                "found_in": located.where,
                "records_in_file": len(frame),
                "left_out_unlabelled": int((~labelled).sum()),
                "split": "as published",
                "pixels": "[-1, 1]" if centred else "[0, 1]",
            },
        )


def read_labels(path: Path) -> pd.DataFrame:
    """Read the list of attributes: a line with the number of pictures, one of names, then ±1 for each picture."""
    with reading_as(path, "CelebA's attributes"):
        with path.open(encoding="utf-8") as lines:
            announced = int(next(lines))
            names = next(lines).split()
            frame = pd.read_csv(lines, sep=r"\s+", header=None, index_col=0)
        if frame.shape != (announced, len(names)):
            raise ValueError(f"{frame.shape[0]} × {frame.shape[1]} labels, {announced} × {len(names)} are announced")
        frame.columns = pd.Index(names)
        absent = {*_HAIR, *(column for column, _ in _BINARY.values())} - set(names)
        if absent:
            raise ValueError(f"lacks {', '.join(sorted(absent))}")
        if not frame.isin((-1, 1)).to_numpy().all():
            raise ValueError("labels must be 1 or -1")
        if not frame.index.is_unique or not frame.index.astype(str).str.fullmatch(r"\w+\.\w+").all():
            raise ValueError("a picture's name is not the name of a file, or is listed twice")
    return frame


def _column(path: Path, pictures: pd.Index) -> IntArray:
    """Read a list of pictures with one integer each, and return the integers of some of them."""
    try:
        listed = pd.read_csv(path, sep=r"\s+", header=None, index_col=0)
        if listed.shape[1] != 1 or not listed.index.is_unique:
            raise ValueError("one number for each picture is needed")
        return listed[1].loc[pictures].to_numpy(dtype=np.int64)
    except (OSError, ValueError, KeyError) as fault:
        why = "some pictures are not listed" if isinstance(fault, KeyError) else str(fault).replace("\n", " ").strip()
        raise InputError(f"{path}: cannot be read as CelebA's list ({why}); fetch it again") from fault


def _attribute(name: str, frame: pd.DataFrame) -> Attribute:
    if name in _BINARY:
        column, values = _BINARY[name]
        return Attribute(name, (frame[column].to_numpy() > 0).astype(np.int64), values)
    positive = frame[list(_HAIR)].to_numpy() > 0
    return Attribute(name, np.where(positive.sum(axis=1) == 1, positive.argmax(axis=1), MISSING), tuple(_HAIR.values()))
