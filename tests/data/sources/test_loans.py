"""Counts and shares are those of FHFA's file of 2009."""

from __future__ import annotations

import zipfile

import numpy as np
import pytest

import fedveil.data
from fedveil.core.errors import InputError
from fedveil.data import ByGroup, Split
from fedveil.data.sources.loans import AFFORDABILITY, COPIES, SOURCES_OF_TARGET, read_loans

FILE = "AMA_PUDB_Export_123109.csv.zip"


def columns_of(data: fedveil.data.AttributeData) -> set[str]:
    return {name.partition("=")[0].removesuffix(" missing") for name in data.feature_names}


def test_the_file(published):
    assert read_loans(published("loans") / FILE).shape == (50_502, 86)


def test_race(published):
    published("loans")
    data = fedveil.data.load("loans", target="affordability", sensitive="race")
    assert data.facts["records_in_classes"] == 12_255
    assert data.facts["left_out_not_stated"] == 12_255 - len(data) == 436
    race = data.attributes["race"]
    assert race.values == ("not White", "White")
    assert race.counts.tolist() == [536, 11_283]
    assert race.prior == pytest.approx(0.955, abs=5e-4)
    assert data.y is not None
    assert data.y.values == AFFORDABILITY
    assert data.y.counts.tolist() == [1_686, 1_147, 8_986]
    assert not columns_of(data) & {*SOURCES_OF_TARGET, *COPIES["race"]}
    assert {"BoGender", "BoAge", "MinPer", "CoAge"} <= columns_of(data)
    assert len(data.rows(Split.TEST)) == pytest.approx(0.2 * len(data), abs=5)


def test_gender_and_age(published):
    published("loans")
    data = fedveil.data.load("loans", target="affordability", sensitive=["gender", "age"], bins=4)
    assert data.attributes["gender"].values == ("male", "female")
    assert len(data.attributes["age"].values) == 4
    assert data.attributes["age"].counts.min() > 0.2 * len(data)
    assert data.attributes["gender"].known.all()
    assert not columns_of(data) & {"BoGender", "BoAge", "CoGender", "CoAge"}
    assert {"BoRace", "CoRace"} <= columns_of(data)
    assert data.facts["copies_left_out"] == ["CoGender", "CoAge"]
    kept = fedveil.data.load("loans", sensitive="gender", keep_sensitive=True, drop=["CoGender"])
    assert kept.y is None
    assert "BoGender" in columns_of(kept)
    assert "CoGender" not in columns_of(kept)


@pytest.mark.parametrize("name", COPIES)
def test_copies_of_a_protected_attribute_are_kept_only_if_asked_for(published, name):
    published("loans")
    column, *copies = COPIES[name]
    data = fedveil.data.load("loans", sensitive=name)
    assert not columns_of(data) & {column, *copies}
    assert data.facts["copies_left_out"] == copies
    kept = fedveil.data.load("loans", sensitive=name, keep_copies=True)
    assert column not in columns_of(kept)
    assert set(copies) & columns_of(kept)
    assert not kept.facts["copies_left_out"]


def test_a_co_borrower_gives_the_borrower_away(published):
    frame = read_loans(published("loans") / FILE)
    frame = frame[(frame["IncRat"] <= 0.8) | (frame["Tractrat"] <= 0.8)]
    pairs = frame[frame["BoGender"].isin([1, 2]) & frame["CoGender"].isin([1, 2])]
    assert (pairs["BoGender"] != pairs["CoGender"]).mean() == pytest.approx(0.977, abs=5e-4)
    aged = frame[(frame["BoAge"] < 99) & (frame["CoAge"] < 98)]
    assert aged["BoAge"].corr(aged["CoAge"]) == pytest.approx(0.92, abs=5e-3)


def test_affordability_is_as_defined(published):
    frame = read_loans(published("loans") / FILE)
    data = fedveil.data.load("loans", target="affordability", sensitive="race")
    stated = frame[~frame["BoRace"].isin([6, 7]) & ((frame["IncRat"] <= 0.8) | (frame["Tractrat"] <= 0.8))]
    expected = [
        0 if income > 0.8 else 1 if area <= 0.8 else 2
        for income, area in zip(stated["IncRat"], stated["Tractrat"], strict=True)
    ]
    assert data.y is not None
    assert data.y.codes.tolist() == expected


def test_codes_of_missing_values_are_not_read_as_numbers(published):
    published("loans")
    data = fedveil.data.load("loans", target="affordability", sensitive="race")
    for name in ("BoAge", "CoAge", "Front", "Back", "Co Borrower Credit Score"):
        assert f"{name} missing" in data.feature_names
        assert np.abs(data.x[:, data.feature_names.index(name)]).max() < 25  # 9999999999 would be an outlier
    assert "Rent1" in data.facts["constant_columns"]
    assert data.facts["placeholder_income"] == 531


def test_sellers_are_groups_only_where_none_crosses_splits(published):
    published("loans")
    assert fedveil.data.load("loans", sensitive="race").groups is None
    data = fedveil.data.load("loans", target="affordability", sensitive="gender", whole_sellers=True)
    assert data.groups is not None
    for seller in np.unique(data.groups):
        assert len(np.unique(data.split[data.groups == seller])) == 1
    assert len(ByGroup(20).deal(data, 0)) == 20


def test_broken_files_are_refused(tmp_path):
    path = tmp_path / FILE
    path.write_bytes(b"no zip")
    with pytest.raises(InputError, match=r"cannot be read as FHFA's loans .*; fetch it again"):
        read_loans(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.csv", "a,b\n1,2\n")
    with pytest.raises(InputError, match="lacks"):
        read_loans(path)
