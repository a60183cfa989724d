"""Labeled Faces in the Wild: who smiles? Race, age, gender, glasses and hair are to be hidden."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from fedveil.data.attribute import MISSING, Attribute
from fedveil.data.attribute_data import AttributeData, random_part, random_split
from fedveil.data.locate import locate
from fedveil.data.members import choose_place, read_pictures, told_as
from fedveil.data.source import PublishedFile, Source
from fedveil.data.strata import group_strata, joint_strata

_LABELS = "lfw_attributes.txt"
_ARCHIVE = "lfw-deepfunneled.tgz"
_FOLDER = "lfw-deepfunneled"
FACE = (78, 70, 172, 195)
"""The face within 250 × 250: the customary cut of 94 × 125 pixels, halved to 47 × 62."""

COLUMNS = {
    "race": {"Asian": "Asian", "White": "White", "Black": "Black"},
    "gender": {"Male": "male", "Female": "female"},
    "age": {"Baby": "baby", "Child": "child", "Youth": "youth", "Middle Aged": "middle-aged", "Senior": "senior"},
    "glasses": {"Eyeglasses": "eyeglasses", "Sunglasses": "sunglasses", "No Eyewear": "none"},
    "hair": {"Black Hair": "black", "Blond Hair": "blond", "Brown Hair": "brown", "Bald": "bald"},
}
"""Each attribute's columns and values, those of the RecUP-FL paper."""


class LFW(Source):
    """13,233 photographs of 5,749 people, cut to 3 × 62 × 47 in [0, 1]; the task is whether one smiles.

    Labels are machine-made scores (Kumar et al. 2009), positive where an attribute is taken to be present: they
    are weak, and an attacker's accuracy is agreement with another classifier. A record has an attribute's value
    when exactly one of its columns is positive, and is unlabelled otherwise; a file without the column "Female"
    counts every face that is not "Male" as female. By default records that lack one of the asked attributes are left
    out and counted in `facts["left_out_unlabelled"]`; with `unlabelled` they stay, without that label.

    People are the groups, and none crosses splits. A person is dealt out by their rarest record, so that rare
    values reach every split.
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
        # Its publisher states no hash.
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
            seed: of the split and of the part.
            validation: share of validation records.
            test: share of test records.
            limit: how many records to take, at random; all by default.
            unlabelled: keep records that lack one of the attributes.
        """
        found = locate(self)
        frame = read_labels(found.files[_LABELS])
        place = choose_place(found.folder, _FOLDER, [_ARCHIVE])
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
            x=read_pictures(place, _FOLDER, names, FACE, (62, 47)),
            attributes=labels,
            split=random_split(len(frame), seed=seed, validation=validation, test=test, strata=strata, groups=people),
            y=smiling if target else None,
            groups=people,
            name=self.name,
            facts={
                "found_in": found.where,
                "records_in_file": len(labelled),
                "left_out_unlabelled": 0 if unlabelled else int((~labelled).sum()),
                "split": "by person",
            },
        )


def read_labels(path: Path) -> pd.DataFrame:
    """Read the file of scores: a line of comment, a line of names that begins with "#", then a line per picture."""
    with told_as(path, "LFW's attributes"):
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
            raise ValueError("a person's name is no name of a folder")
    return frame


def _attribute(name: str, frame: pd.DataFrame) -> Attribute:
    values = COLUMNS[name]
    if name == "gender" and "Female" not in frame:
        return Attribute(name, (frame["Male"].to_numpy() <= 0).astype(np.int64), tuple(values.values()))
    positive = frame[list(values)].to_numpy() > 0
    return Attribute(
        name, np.where(positive.sum(axis=1) == 1, positive.argmax(axis=1), MISSING), tuple(values.values())
    )
