from __future__ import annotations

import unicodedata
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fedveil.data
from fedveil.core.errors import InputError
from fedveil.data import Split


def people(n: int = 300) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "id": [f"p{i}" for i in range(n)],
            "row": np.arange(n),
            "age": rng.integers(18, 90, n).astype(float),
            "job": rng.choice(["cook", "nurse"], n),
            "sex": rng.choice(["f", "m"], n),
            "race": rng.choice(["x", "y", "z"], n),
            "hired": rng.integers(0, 2, n),
            "firm": rng.choice([f"f{i}" for i in range(30)], n),
        }
    )


def saved(tmp_path: Path, frame: pd.DataFrame, name: str = "people.csv") -> Path:
    path = tmp_path / name
    frame.to_parquet(path) if name.endswith("parquet") else frame.to_csv(path, index=False)
    return path


def load(path: Path, **options):
    return fedveil.data.load("table", path=path, **{"target": "hired", "sensitive": "sex", **options})


@pytest.mark.parametrize("name", ["people.csv", "people.parquet"])
def test_all_other_columns_are_inputs_but_identifiers(tmp_path, name):
    data = load(saved(tmp_path, people(), name), group="firm")
    assert set(data.feature_names) == {"age", "job=cook", "job=nurse", "race=x", "race=y", "race=z"}
    assert set(data.facts["dropped_columns"]) == {"id", "row"}
    assert "identifier" in data.facts["dropped_columns"]["id"]
    assert data.name == name
    assert data.groups is not None
    for group in np.unique(data.groups):
        assert len(np.unique(data.split[data.groups == group])) == 1


def test_csv_and_parquet_give_the_same_data(tmp_path):
    frame = people()
    frame.loc[3, "age"] = None
    frame.loc[4, "job"] = None
    from_csv, from_parquet = (load(saved(tmp_path, frame, name)) for name in ("people.csv", "people.parquet"))
    np.testing.assert_array_equal(from_csv.x, from_parquet.x)
    np.testing.assert_array_equal(from_csv.split, from_parquet.split)
    assert from_csv.feature_names == from_parquet.feature_names
    assert {"age missing", "job=(missing)"} <= set(from_csv.feature_names)


def test_features_bins_and_no_target(tmp_path):
    path = saved(tmp_path, people())
    data = load(path, target=None, sensitive=["age", "sex"], features=["job"], bins=4)
    assert data.y is None
    assert data.feature_names == ("job=cook", "job=nurse")
    assert len(data.attributes["age"].values) == 4
    assert "sex=f" in load(path, keep_sensitive=True).feature_names


def test_a_split_column(tmp_path):
    frame = people()
    frame["part"] = ["Train", "train", "val", "test"] * 75
    data = load(saved(tmp_path, frame), split="part")
    assert [len(data.rows(split)) for split in Split] == [150, 75, 75]
    assert not any(name.startswith("part") for name in data.feature_names)
    frame.loc[0, "part"] = "holdout"
    with pytest.raises(InputError, match="split column 'part' holds 'holdout'"):
        load(saved(tmp_path, frame), split="part")


def test_a_split_column_must_not_cut_a_group(tmp_path):
    frame = people()
    frame["firm"] = [f"f{i // 5}" for i in range(len(frame))]
    frame["part"] = np.repeat(["train", "train", "val", "test"], 75)
    data = load(saved(tmp_path, frame), split="part", group="firm")
    assert data.groups is not None
    frame.loc[7, "part"] = "test"
    with pytest.raises(InputError, match=r"group 'f1' of 'firm' is in both train and test \(record 8\)"):
        load(saved(tmp_path, frame), split="part", group="firm")
    assert load(saved(tmp_path, frame), split="part").groups is None


def test_a_nested_column_is_not_an_input(tmp_path):
    frame = people()
    frame["seen"] = [[1, 2]] * len(frame)
    path = saved(tmp_path, frame, "people.parquet")
    assert load(path).facts["dropped_columns"]["seen"] == "holds lists, not one value per record"
    for options in ({"sensitive": "seen"}, {"group": "seen"}, {"target": "seen"}, {"features": ["seen"]}):
        with pytest.raises(InputError, match="column 'seen' holds lists, not one value per"):
            load(path, **options)


def test_a_sensitive_column_is_not_an_input_however_its_name_is_written(tmp_path):
    composed, apart = "größe", unicodedata.normalize("NFD", "größe")
    for written, named in ((composed, apart), (apart, composed)):
        path = saved(tmp_path, people().rename(columns={"sex": written}))
        assert not any("gr" in name for name in load(path, sensitive=named).feature_names)


def test_records_without_labels(tmp_path):
    frame = people()
    frame["hired"] = frame["hired"].astype(float)
    frame.loc[:9, "hired"] = None
    frame.loc[20:25, "sex"] = None
    data = load(saved(tmp_path, frame))
    assert len(data) == 290
    assert data.facts["left_out_without_target"] == 10
    assert int((~data.attributes["sex"].known).sum()) == 6
    assert data.y is not None
    assert data.y.values == ("0", "1")


def test_a_saved_index_is_not_an_input(tmp_path):
    path = tmp_path / "people.csv"
    people().to_csv(path)
    data = load(path)
    assert "no name" in data.facts["dropped_columns"]["unnamed 1"]


def test_refusals(tmp_path):
    frame = people()
    frame["same"] = frame["hired"].map({0: "no", 1: "yes"})
    frame["one"] = "only"
    frame["rare"] = ["r"] + ["c"] * 299
    path = saved(tmp_path, frame)
    for options, message in [
        ({"sensitive": "hired"}, "'hired' is both target and sensitive"),
        ({"sensitive": "same"}, "'same' and target 'hired' determine each other"),
        ({"sensitive": "one"}, "attribute 'one' has only the value 'only'"),
        ({"sensitive": "rare"}, "attribute 'rare' has no record of value 'r' in the validation split"),
        ({"sensitive": "sx"}, "no column 'sx': did you mean 'sex'"),
        ({"target": "hird"}, "no column 'hird': did you mean 'hired'"),
        ({"features": ["id"]}, "column 'id' holds text with 300 different values"),
        ({"features": ["agee"]}, "no column 'agee'"),
        ({"features": ["sex"]}, "'sex' is target, sensitive, group or split"),
        ({"group": "frm"}, "no column 'frm'"),
        ({"path": None}, "give path="),
        ({"path": tmp_path / "absent.csv"}, "no such file"),
        ({"bin": 3}, "no option 'bin': did you mean 'bins'"),
    ]:
        with pytest.raises(InputError, match=message):
            fedveil.data.load("table", **{"path": path, "target": "hired", "sensitive": "sex", **options})
    frame.loc[5, "firm"] = None
    with pytest.raises(InputError, match="group 'firm' is missing in record 6"):
        load(saved(tmp_path, frame), group="firm")
    with pytest.raises(InputError, match="no column is left as input"):
        load(saved(tmp_path, frame[["id", "sex", "hired"]]))
