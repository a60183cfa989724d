"""UTKFace: faces whose file names state age, gender and race; each can be the task or be protected."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence

import numpy as np

from fedveil.core.arrays import IntArray
from fedveil.core.errors import InputError
from fedveil.data.archives import choose_container, list_members, read_pictures
from fedveil.data.attribute import Attribute
from fedveil.data.attribute_data import AttributeData
from fedveil.data.locate import locate
from fedveil.data.source import PublishedFile, Source
from fedveil.data.splits import even_split, random_part

_ARCHIVE = "UTKFace.tar.gz"
_FOLDER = "UTKFace"
_OLDEST = 116
# The rest of a published name is not always regular: "…657 .jpg", "…357jpg.jpg", "….jpg.chip.jpg".
_NAME = re.compile(r"(\d{1,3})_([01])_([0-4])_\d[^/]*\.jpg")

AGES: Mapping[int, tuple[int, ...]] = {2: (30,), 3: (20, 35), 4: (21, 29, 45), 5: (19, 26, 34, 49)}
"""The oldest age of each class but the last, by number of classes (Table 10; its "30 > a" is a misprint of 30 < a)."""

RACES: Mapping[int, tuple[str, ...]] = {
    2: ("W", "BAIO"),
    3: ("W", "A", "BIO"),
    4: ("W", "B", "I", "AO"),
    5: tuple("WBAIO"),
}
"""The races in each class, by number of classes (Table 11)."""

# In the order of the codes in file names.
_RACE_NAMES = {"W": "White", "B": "Black", "A": "Asian", "I": "Indian", "O": "other"}


class UTKFace(Source):
    """23,705 aligned faces, resized to 3 × size × size, in [−1, 1] as the paper's networks take them.

    A file is named age_gender_race_date.jpg or ….jpg.chip.jpg; each of the three labels can be the task or be
    protected. Ages (0 … 116) and races are grouped into 2, 3, 4 or 5 classes, those of Malekzadeh, Borovykh & Gündüz
    (2021), "Honest-but-Curious Nets", Tables 10 and 11. Faces whose names do not parse are left out and counted in
    `facts["left_out_unlabelled"]`: three published names lack the race.

    The split is random, 80/20 with a tenth of the 80 for validation, as in that paper (Section 5.1.3): 18,964/4,741
    and 1,896. It is even over the five races and, within them, over genders and ages, and does not depend on the
    labels and classes that are chosen. People are not identified, so one person's faces may be in several splits.
    """

    name = "utkface"
    description = "UTKFace faces: age, gender and race, as task or attribute"
    licence = "non-commercial research only"
    citation = (
        "Zhang, Song & Qi (2017). Age Progression/Regression by Conditional Adversarial Autoencoder; classes: "
        "Malekzadeh, Borovykh & Gündüz (2021). Honest-but-Curious Nets"
    )
    attributes = ("age", "gender", "race")
    targets = ("age", "gender", "race")
    folder = "utkface"
    files = (
        # The publisher's "Aligned & Cropped Faces" on Google Drive; no hash of it is published.
        PublishedFile(
            _ARCHIVE,
            "https://drive.usercontent.google.com/download?id=0BxYys69jI14kYVM3aVhKS1VhRUk&export=download&confirm=t"
            "&resourcekey=0-dabpv_3J0C0cditpiAfhAw",
            "",
        ),
    )
    unpacked = ("**/*.jpg",)

    def read(
        self,
        target: str | None,
        sensitive: Sequence[str],
        seed: int,
        validation: float = 0.08,
        test: float = 0.2,
        limit: int | None = None,
        size: int = 64,
        age_classes: int = 5,
        race_classes: int = 5,
        centred: bool = True,
    ) -> AttributeData:
        """Read names and faces.

        Args:
            target: age, gender, race or None.
            sensitive: any of the same.
            seed: for the split and for the random part.
            validation: share of validation records (default: a tenth of all but the test records).
            test: share of test records.
            limit: how many records to take, at random (default: all).
            size: height and width of a face.
            age_classes: 2, 3, 4 or 5.
            race_classes: 2, 3, 4 or 5.
            centred: pixels in [−1, 1]; else in [0, 1], as in other sources.
        """
        if not 8 <= size <= 200:
            raise InputError(f"{self.name}: size must lie between 8 and 200, the pictures' width, got {size}")
        for option, classes in (("age_classes", age_classes), ("race_classes", race_classes)):
            if classes not in (2, 3, 4, 5):
                raise InputError(f"{self.name}: {option} must be 2, 3, 4 or 5, got {classes}")
        located = locate(self)
        # Without the archive, the files are the faces themselves, and the folder is that of the first of them.
        folder = located.folder
        container = choose_container(folder, _FOLDER, [_ARCHIVE]) if _ARCHIVE in located.files else folder
        listed = [name for name in list_members(container, _FOLDER, ".jpg") if "/" not in name]
        labelled = [(name, codes) for name in listed if (codes := parse_name(name)) is not None]
        if not labelled:
            raise InputError(
                f"{container}: holds no faces named age_gender_race_date.jpg ({len(listed)} other pictures); "
                "complete it or fetch it again"
            )
        part = [labelled[row] for row in random_part(len(labelled), limit, seed, self.name)]
        ages, genders, races = np.array([codes for _, codes in part], dtype=np.int64).T
        strata = (races * 2 + genders) * (_OLDEST + 1) + ages
        labels = {
            "age": age_attribute(ages, age_classes),
            "gender": Attribute("gender", genders, ("male", "female")),
            "race": race_attribute(races, race_classes),
        }
        return AttributeData(
            x=read_pictures(container, _FOLDER, [name for name, _ in part], None, (size, size), centred=centred),
            attributes={name: labels[name] for name in sensitive},
            split=even_split(strata, seed=seed, validation=validation, test=test),
            y=labels[target] if target else None,
            name=self.name,
            facts={
                "found_in": located.where,
                "records_in_file": len(listed),
                "left_out_unlabelled": len(listed) - len(labelled),
                "split": "random, even over race, gender and age",
                "pixels": "[-1, 1]" if centred else "[0, 1]",
            },
        )


def parse_name(name: str) -> tuple[int, int, int] | None:
    """Return the age, gender and race that a file's name states; None if it does not parse.

    >>> parse_name("26_1_2_20170116184024662.jpg.chip.jpg")
    (26, 1, 2)
    >>> parse_name("61_1_20170109142408075.jpg.chip.jpg") is None  # published without a race
    True
    """
    match = _NAME.fullmatch(name)
    if match is None or int(match[1]) > _OLDEST:
        return None
    return int(match[1]), int(match[2]), int(match[3])


def age_attribute(ages: IntArray, classes: int) -> Attribute:
    """Return ages in classes.

    >>> age_attribute(np.array([20, 21, 35, 36]), 3).codes.tolist(), age_attribute(np.array([20]), 3).values
    ([0, 1, 1, 2], ('≤ 20', '21–35', '> 35'))
    """
    ends = AGES[classes]
    between = (f"{below + 1}–{end}" for below, end in itertools.pairwise(ends))
    codes = np.searchsorted(np.array(ends), ages).astype(np.int64)
    return Attribute("age", codes, (f"≤ {ends[0]}", *between, f"> {ends[-1]}"))


def race_attribute(races: IntArray, classes: int) -> Attribute:
    """Return races in classes, from the codes of file names: White, Black, Asian, Indian, others.

    >>> race_attribute(np.arange(5), 3).codes.tolist(), race_attribute(np.arange(5), 3).values
    ([0, 2, 1, 2, 2], ('White', 'Asian', 'Black/Indian/other'))
    """
    merged = RACES[classes]
    code_of = [next(code for code, members in enumerate(merged) if race in members) for race in _RACE_NAMES]
    names = tuple("/".join(_RACE_NAMES[race] for race in members) for members in merged)
    return Attribute("race", np.array(code_of)[races], names)
