"""FHFA's Federal Home Loan Bank public-use database of 2009; the task is how affordable a home loan is."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from fedveil.core.errors import InputError
from fedveil.data.attribute import MISSING, Attribute
from fedveil.data.attribute_data import AttributeData, Split
from fedveil.data.encoding import encode_table
from fedveil.data.locate import locate
from fedveil.data.source import PublishedFile, Source
from fedveil.data.splits import joint_strata, random_split

_FILE = "AMA_PUDB_Export_123109.csv.zip"
AFFORDABILITY = (
    "other income in a low-income area",
    "low-income family in a low-income area",
    "low-income family elsewhere",
)
SOURCES_OF_TARGET = ("Income", "CurAreY", "IncRat", "Tractrat", "TraMedY", "LocMedY")
COPIES = {
    "race": ["BoRace", "CoRace", "BoEth", "CoEth", *(f"{who}{i}" for who in ("Race", "Corace") for i in "2345")],
    "gender": ["BoGender", "CoGender"],
    "age": ["BoAge", "CoAge"],
}
"""The columns that are left out when an attribute is protected: first the attribute itself, then its near copies."""

_IDENTIFIERS = ("LoanNumber", "FeatureID", "Tract", "FIPSCountyCode", "MSA", "FHFBID", "Seller", "SellCity")
"""Numbers and names of loans, places and lenders, which have hundreds of values or no meaning as a quantity."""

_CODES_OF_MISSING = {
    "BoAge": (99,),  # not provided
    "CoAge": (98, 99),  # no co-borrower; not provided
    "Co Borrower Credit Score": (9,),  # missing, or no co-borrower
    "Front": (9.9999,),  # undocumented: the largest value, reached exactly if income is a placeholder
    "Back": (9.9999,),
    **{
        f"{what}{unit}": (code,)
        for what, code in (("Bed", 98), ("Rent", 9999999999), ("RentUt", 9999999999))
        for unit in "1234"
    },
    "ArmIndex": (99,),
    "ArmMarg": (99999,),
}
_QUANTITIES = frozenset(
    {
        "MinPer",
        "UPB",
        "LTV",
        "Term",
        "AmorTerm",
        "NumBor",
        "BoAge",
        "CoAge",
        "NumUnits",
        "Rate",
        "Amount",
        "Front",
        "Back",
    }
    | {"Borrower Credit Score", "Co Borrower Credit Score", "PMI", "ArmMarg"}
    | {f"{what}{unit}" for what in ("Bed", "Rent", "RentUt") for unit in "1234"}
)
"""Columns whose numbers are quantities, or ordered codes (credit scores in five ranges); all others are categories."""


class Loans(Source):
    """50,502 loans of 2009, of which 12,255 fall into the three affordability classes.

    The papers use FHFA's single-family file as Loans; this file is closely related to it. Affordability: a low-income
    family has IncRat ≤ 0.8, a low-income area Tractrat ≤ 0.8. Other loans are left out, and the six columns that
    determine the classes are not used as inputs. Nor are the near copies of a protected attribute: the
    co-borrower's race equals the borrower's in 98.7% and the gender is the opposite one in 98% of stated pairs; the
    ages correlate at 0.92. `facts["copies_left_out"]` names them; `keep_copies` keeps them. Records whose sensitive
    value is not stated (race 6 or 7, gender 3, age 99) are left out and counted in `facts`. Codes that mean
    "missing" become missing values with an indicator column; constant columns and identifiers are listed in `facts`.

    566 of the 12,255 loans state an income of 12 dollars, a placeholder (streamlined refinancing); by the
    rule they count as low-income. `facts["placeholder_income"]` counts them.

    Sellers differ so much in size that keeping each in one split makes splits uneven (over eight seeds, 11% to 46% of
    the records were in test; of 536 borrowers who are not White, sometimes only 11 were in validation). By default,
    records are therefore split individually and `groups` is None; with `whole_sellers`, sellers are the groups and
    each stays in one split.
    """

    name = "loans"
    description = "FHFA Federal Home Loan Bank loans 2009: affordability in 3 classes"
    licence = "US government work, public domain"
    citation = (
        "Federal Housing Finance Agency. Federal Home Loan Bank Public Use Database, 2009 (AMA_PUDB_Export_123109), "
        "https://www.fhfa.gov/data/pudb"
    )
    attributes = ("race", "gender", "age")
    targets = ("affordability",)
    folder = "loans"
    # A public copy of FHFA's file, pinned by its commit; FHFA's own page is in the citation.
    files = (
        PublishedFile(
            _FILE,
            "https://raw.githubusercontent.com/hrwgc/homes/6707ed3a7bc6288e0f96eed0b3dd059bc6680e68/data/fhfa/" + _FILE,
            "sha256:80bc0391a4f6c32474ce4204305bb6c6038a87d66f99d094193d91960ce76c58",
        ),
    )

    def read(
        self,
        target: str | None,
        sensitive: Sequence[str],
        seed: int,
        validation: float = 0.1,
        test: float = 0.2,
        bins: int = 3,
        keep_sensitive: bool = False,
        keep_copies: bool = False,
        drop: Sequence[str] = (),
        whole_sellers: bool = False,
    ) -> AttributeData:
        """Read the file, derive affordability, and split at random.

        Args:
            target: "affordability" or None.
            sensitive: any of race (White or not), gender, age.
            seed: for the split.
            validation: share of validation records.
            test: share of test records.
            bins: how many classes of equal size age is cut into.
            keep_sensitive: keep the protected column and its copies among the inputs.
            keep_copies: leave out the protected column, but keep its copies.
            drop: further columns to leave out of the inputs.
            whole_sellers: make sellers the groups and keep each in one split (the largest has a sixth of all loans).
        """
        located = locate(self)
        frame = read_loans(located.files[_FILE])
        affordability = _affordability(frame)
        labels = {name: _attribute(name, frame, bins) for name in sensitive}
        stated = np.logical_and.reduce([label.known for label in labels.values()])
        facts: dict[str, object] = {
            "found_in": located.where,
            "records_in_file": len(frame),
            "records_in_classes": int(affordability.known.sum()),
            "left_out_not_stated": int((affordability.known & ~stated).sum()),
        }
        rows = np.flatnonzero(affordability.known & stated)
        frame = frame.iloc[rows].reset_index(drop=True)
        affordability = affordability.take(rows)
        # Again, so that age is binned on the records that remain.
        labels = {name: _attribute(name, frame, bins) for name in sensitive}
        facts["placeholder_income"] = int((frame["Income"] == 12).sum())
        sellers = pd.factorize(frame["Seller"], sort=True)[0].astype(np.int64) if whole_sellers else None
        strata = joint_strata([*labels.values(), affordability])
        split = random_split(
            len(frame),
            seed=seed,
            validation=validation,
            test=test,
            strata=strata,
            groups=sellers,
        )
        unwanted = {*SOURCES_OF_TARGET, *_IDENTIFIERS, *drop}
        protected = [] if keep_sensitive else [COPIES[name][0] for name in sensitive]
        copies = [] if keep_sensitive or keep_copies else [copy for name in sensitive for copy in COPIES[name][1:]]
        unwanted.update(protected, copies)
        facts["copies_left_out"] = copies
        inputs, constant = _inputs(frame, unwanted)
        facts["constant_columns"], facts["identifiers_left_out"] = constant, list(_IDENTIFIERS)
        encoded = encode_table(inputs, train=split == Split.TRAIN, categorical=set(inputs.columns) - _QUANTITIES)
        return AttributeData(
            x=encoded.x,
            attributes=labels,
            split=split,
            y=affordability if target else None,
            groups=sellers,
            feature_names=encoded.names,
            columns=encoded.columns,
            name=self.name,
            facts=facts,
        )


def read_loans(path: Path) -> pd.DataFrame:
    """Read the zipped CSV, which is latin-1."""
    try:
        with zipfile.ZipFile(path) as archive:
            member = next(n for n in archive.namelist() if n.lower().endswith(".csv") and not n.startswith("__MACOSX"))
            text = archive.read(member)
        frame = pd.read_csv(io.BytesIO(text), encoding="latin-1", low_memory=False)
        frame.columns = frame.columns.str.strip()
        needed = {*SOURCES_OF_TARGET, *_IDENTIFIERS, *(copy for copies in COPIES.values() for copy in copies)}
        absent = needed - set(frame.columns)
        if absent:
            raise ValueError(f"lacks {', '.join(sorted(absent))}")
    except (OSError, ValueError, StopIteration, EOFError, zipfile.BadZipFile, zlib.error) as fault:
        raise InputError(f"{path}: cannot be read as FHFA's loans of 2009 ({fault}); fetch it again") from fault
    return frame


def _affordability(frame: pd.DataFrame) -> Attribute:
    low_income_family = frame["IncRat"].to_numpy() <= 0.8
    low_income_area = frame["Tractrat"].to_numpy() <= 0.8
    codes = np.select(
        [~low_income_family & low_income_area, low_income_family & low_income_area, low_income_family],
        [0, 1, 2],
        MISSING,
    )
    return Attribute("affordability", codes, AFFORDABILITY)


def _attribute(name: str, frame: pd.DataFrame, bins: int) -> Attribute:
    if name == "race":
        race = frame["BoRace"].to_numpy()
        return Attribute("race", np.select([race == 5, race < 5], [1, 0], MISSING), ("not White", "White"))
    if name == "gender":
        gender = frame["BoGender"].to_numpy()
        return Attribute("gender", np.select([gender == 1, gender == 2], [0, 1], MISSING), ("male", "female"))
    age: npt.NDArray[np.float64] = frame["BoAge"].to_numpy(dtype=np.float64)
    return Attribute.from_column("age", np.where(age == 99, np.nan, age), bins=bins)


def _inputs(frame: pd.DataFrame, unwanted: set[str]) -> tuple[pd.DataFrame, list[str]]:
    """Return the input columns, with codes of missing values removed, and the names of constant columns."""
    inputs = frame.drop(columns=[name for name in frame.columns if name in unwanted])
    inputs = inputs.rename(columns=str)
    for name, codes in _CODES_OF_MISSING.items():
        if name in inputs.columns:
            inputs[name] = inputs[name].mask(inputs[name].isin(codes))
    constant = [str(name) for name in inputs.columns if inputs[name].nunique(dropna=False) < 2]
    return inputs.drop(columns=constant), constant
