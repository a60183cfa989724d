"""Labeled Faces in the Wild: the task is whether a person smiles; race, age, gender, glasses or hair are hidden."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from fedveil.data.archives import choose_container, read_pictures, reading_as
from fedveil.data.attribute import MISSING, Attribute
from fedveil.data.attribute_data import AttributeData
from fedveil.data.locate import locate
from fedveil.data.source import PublishedFile, Source
from fedveil.data.splits import group_strata, joint_strata, random_part, random_split

_LABELS = "lfw_attributes.txt"
_ARCHIVE = "lfw-deepfunneled.tgz"
_FOLDER = "lfw-deepfunneled"
FACE = (78, 70, 172, 195)
"""The face within 250 × 250 pixels: the usual cut of 94 × 125, which is then halved to 47 × 62."""

COLUMNS = {
    "race": {"Asian": "Asian", "White": "White", "Black": "Black"},
    "gender": {"Male": "male", "Female": "female"},
    "age": {"Baby": "baby", "Child": "child", "Youth": "youth", "Middle Aged": "middle-aged", "Senior": "senior"},
    "glasses": {"Eyeglasses": "eyeglasses", "Sunglasses": "sunglasses", "No Eyewear": "none"},
    "hair": {"Black Hair": "black", "Blond Hair": "blond", "Brown Hair": "brown", "Bald": "bald"},
}
"""The columns and values of each attribute, as in the RecUP-FL paper."""


class LFW(Source):
    """13,233 photographs of 5,749 people, cut to 3 × 62 × 47 in [0, 1]; the task is whether the person smiles.

    Labels come from classifiers' scores (Kumar et al. 2009), positive if an attribute is judged to be present. They
    are weak: an attacker's accuracy is agreement with another classifier. A record has a value of an attribute if
    exactly one of the attribute's columns is positive, and is unlabelled otherwise; in a file without the column
    "Female", every face that is not "Male" counts as female. By default records without a value of some protected
    attribute are left out and counted in `facts["left_out_unlabelled"]`; with `unlabelled` they are kept.

    People are the groups, and each stays in one split. Each person is assigned to the stratum of their rarest record,
    so that rare values reach every split.
    """

    name = "lfw"
    description = "Labeled Faces in the Wild: smiling; race, gender, age, glasses, hair"
    licence = "none stated; published for research"
    citation = (
        "Huang, Ramesh, Berg & Learned-Miller (2007). Labeled Faces in the Wild; Huang et al. (2012), deep funneling; "
        "Kumar, Berg, Belhumeur & Nayar (2009), attributes"
    )
    attributes = tuple(COLUMNS)
    targets = ("smiling",)
    folder = "lfw"
    files = (
        PublishedFile(
            _ARCHIVE, "http://vis-www.cs.umass.edu/lfw/lfw-deepfunneled.tgz", "md5:68331da3eb755a505a502b5aacb3c201"
        ),
        # Its publisher gives no hash.
        PublishedFile(_LABELS, "https://www.cs.columbia.edu/CAVE/databases/pubfig/download/lfw_attributes.txt", ""),
    )
    unpacked = (_LABELS,)

    def read(
        self,
        target: str | None,
        sensitive: Sequence[str],
        seed: int,
        validation: float = 0.1,
        test: float = 0.2,
        limit: int | None = None,
        unlabelled: bool = False,
    ) -> AttributeData:
        """Read labels and pictures, and split by person.

        Args:
            target: "smiling" or None.
            sensitive: any of race, gender, age, glasses, hair.
            seed: for the split and for the random part.
            validation: share of validation records.
            test: share of test records.
            limit: how many records to take, at random (default: all).
            unlabelled: keep records without a value of some protected attribute.
        """
        located = locate(self)
        frame = read_labels(located.files[_LABELS])
        container = choose_container(located.folder, _FOLDER, [_ARCHIVE])
        labels = {name: _attribute(name, frame) for name in sensitive}
        labelled = np.logical_and.reduce([label.known for label in labels.values()])
        rows = np.arange(len(frame)) if unlabelled else np.flatnonzero(labelled)
        rows = rows[random_part(len(rows), limit, seed, self.name)]
        frame = frame.iloc[rows]
        labels = {name: label.take(rows) for name, label in labels.items()}
        smiling = Attribute("smiling", (frame["Smiling"].to_numpy() > 0).astype(np.int64), ("no", "yes"))
        people = pd.factorize(frame["person"], sort=True)[0].astype(np.int64)
        strata = group_strata(joint_strata([*labels.values(), smiling]), people)
        names = [
            f"{person}/{person}_{number:04d}.jpg"
            for person, number in zip(frame["person"].str.replace(" ", "_"), frame["imagenum"], strict=True)
        ]
        return AttributeData(
            x=read_pictures(container, _FOLDER, names, FACE, (62, 47)),
            attributes=labels,
            split=random_split(len(frame), seed=seed, validation=validation, test=test, strata=strata, groups=people),
            y=smiling if target else None,
            groups=people,
            name=self.name,
            facts={
                "found_in": located.where,
                "records_in_file": len(labelled),
                "left_out_unlabelled": 0 if unlabelled else int((~labelled).sum()),
                "split": "by person",
            },
        )


def read_labels(path: Path) -> pd.DataFrame:
    """Read the file of scores: a comment, then a line of names that begins with "#", then a line per picture."""
    with reading_as(path, "LFW's attributes"):
        with path.open(encoding="utf-8") as lines:
            next(lines)
            names = next(lines).rstrip("\n").split("\t")[1:]
            frame = pd.read_csv(lines, sep="\t", header=None, quoting=3, keep_default_na=False)
        if frame.shape[1] != len(names):
            raise ValueError(f"{frame.shape[1]} columns, {len(names)} names")
        frame.columns = pd.Index(names)
        columns = [name for columns in COLUMNS.values() for name in columns if name != "Female"]
        absent = {"person", "imagenum", "Smiling", *columns} - set(names)
        if absent:
            raise ValueError(f"lacks {', '.join(sorted(absent))}")
        textual = [name for name in names[1:] if not pd.api.types.is_numeric_dtype(frame[name])]
        if textual:
            raise ValueError(f"{textual[0]} is not a number in every line")
        if frame["person"].str.contains(r"[/\\]|^\.").any():
            raise ValueError("a person's name is not the name of a folder")
    return frame


def _attribute(name: str, frame: pd.DataFrame) -> Attribute:
    values = COLUMNS[name]
    if name == "gender" and "Female" not in frame:
        return Attribute(name, (frame["Male"].to_numpy() <= 0).astype(np.int64), tuple(values.values()))
    positive = frame[list(values)].to_numpy() > 0
    return Attribute(
        name, np.where(positive.sum(axis=1) == 1, positive.argmax(axis=1), MISSING), tuple(values.values())
    )
