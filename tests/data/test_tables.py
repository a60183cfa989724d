from __future__ import annotations

import gzip
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from table_files import csv

from fedveil.core.errors import InputError
from fedveil.data.encoding import encode_columns
from fedveil.data.tables import column, read_table, read_vectors, same_rows

# --- valid tables


def test_csv_with_bom_blanks_quotes_and_missing_values(tmp_path):
    frame = read_table(csv(tmp_path, '\ufeff a , b,c \n1, x ,"p, q"\n\n2,NA,"r\ns"\n'))
    assert list(frame.columns) == ["a", "b", "c"]
    assert frame["a"].tolist() == [1, 2]
    assert frame["b"].isna().tolist() == [False, True]
    assert frame["b"].iloc[0] == "x"
    assert frame["c"].tolist() == ["p, q", "r\ns"]


def test_inches_in_plain_cells_are_not_quotes(tmp_path):
    assert read_table(csv(tmp_path, 'a,b\n5" pipe,1\n\n6 pipe,2\n'))["a"].tolist() == ['5" pipe', "6 pipe"]


def test_none_and_question_mark_are_values(tmp_path):
    assert read_table(csv(tmp_path, "a,b\nNone,1\n?,2\n"))["a"].tolist() == ["None", "?"]


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_line_ends_and_leading_blank_lines(tmp_path, line_end):
    frame = read_table(csv(tmp_path, line_end.join(["", "a,b", "1,2", "3,4", ""])))
    assert frame.to_numpy().tolist() == [[1, 2], [3, 4]]


def test_tsv_and_gzip(tmp_path):
    assert read_table(csv(tmp_path, "a\tb\n1\tx,y\n", "t.tsv"))["b"].tolist() == ["x,y"]
    assert read_table(csv(tmp_path, gzip.compress(b"a,b\n1,2\n"), "t.csv.gz"))["b"].tolist() == [2]


def test_a_row_longer_than_a_block(tmp_path):
    wide = 600_000  # some 7 MB per row
    text = ",".join(f"c{i}" for i in range(wide)) + "\n" + ",".join(["1.25"] * wide) + "\n"
    vectors, names = read_vectors(csv(tmp_path, text), columns=["c0", f"c{wide - 1}"])
    assert vectors.tolist() == [[1.25, 1.25]]
    assert names == ["c0", f"c{wide - 1}"]


def test_columns_are_read_in_the_order_asked_for(tmp_path):
    path = csv(tmp_path, "a,b,c\n1,2,3\n")
    assert list(read_table(path, ["c", "a"]).columns) == ["c", "a"]
    parquet = tmp_path / "t.parquet"
    pd.DataFrame({"a": [1], "b": [2], "c": [3]}).to_parquet(parquet)
    assert list(read_table(parquet, ["c", "a"]).columns) == ["c", "a"]


def test_parquet_keeps_a_named_index_as_a_column_and_drops_a_nameless_one(tmp_path):
    path = tmp_path / "t.parquet"
    frame = pd.DataFrame({"a": [1, 9, 4], "s": ["x", None, "y"]})
    frame.set_index("a").to_parquet(path)
    assert set(read_table(path).columns) == {"a", "s"}
    frame.iloc[::-1].to_parquet(path)
    assert list(read_table(path).columns) == ["a", "s"]


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(st.text(alphabet='ab,"\n é', min_size=0, max_size=6), st.integers(-(10**6), 10**6)),
        min_size=1,
        max_size=12,
    )
)
def test_what_pandas_writes_is_read_back(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("t") / "t.csv"
    frame = pd.DataFrame(rows, columns=["text", "number"])
    frame.to_csv(path, index=False)
    back = read_table(path)
    assert back["number"].tolist() == frame["number"].tolist()
    assert [None if pd.isna(v) else str(v) for v in back["text"]] == [v.strip() or None for v in frame["text"]]


# --- invalid tables


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("a,b\n1,2\n3\n", "line 3 has 1 field, the header has 2"),
        ("a,b\n1,2\n3,4,5\n", "line 3 has 3 fields, the header has 2"),
        ("a,b\n1,2,\n3,4,\n", "line 2 has 3 fields"),
        ('a,b\n"x\ny",1\n2\n', "line 4 has 1 field"),
        ('a,b\n1,"x\n2,3\n', "a quote opened on line 2 is not closed"),
        ('a,b\n0,0\n1,"x\n2,"y\n3,z\n', "a quote opened on line 3 is not closed"),
        ('a,b\n1,"x', "a quote opened on line 2 is not closed"),
        (b"a,b\n1,2\n\xe9,3\n", "line 3, byte 8 (0xe9) is not UTF-8"),
        ("a,b\n1,2\n".encode("utf-16"), "UTF-16"),
        (b"a,b\n1,\0\n", "zero bytes"),
        ("a,b,a\n1,2,3\n", "has 2 columns named 'a'"),
        ("a, a\n1,2\n", "has 2 columns named 'a'"),
        ("", "is empty"),
        ("\n \n", "is empty"),
        ("a,b\n", "no rows"),
        ("a;b\n1;2\n", "separated by ';'"),
        ("1.5,2\n3,4\n", "first line holds numbers"),
        ("a\n1\n\n2\n", "line 3 is blank"),
    ],
)
def test_faulty_csv_is_refused_in_one_line(tmp_path, data, message):
    path = csv(tmp_path, data)
    with pytest.raises(InputError) as caught:
        read_table(path)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_ragged_line_is_found_far_into_a_large_file(tmp_path):
    lines = ["a,b,c"] + ["1,2,3"] * 300_000
    lines[250_000] = "1,2"
    with pytest.raises(InputError, match="line 250001 has 2 fields"):
        read_table(csv(tmp_path, "\n".join(lines)))


def test_numbers_beside_a_late_text_stay_text(tmp_path):
    frame = read_table(csv(tmp_path, "a,b\n" + "1,2\n" * 400_000 + "x,2\n"))
    assert frame["a"].iloc[-1] == "x"
    assert frame["a"].iloc[0] == "1"


def test_files_that_cannot_be_read(tmp_path, monkeypatch):
    csv(tmp_path, "a\n1\n", "people.csv")
    for path, message in [
        (tmp_path / "peple.csv", "no such file: did you mean 'people.csv'?"),
        (tmp_path / "no" / "t.csv", "there is no folder"),
        (tmp_path / "t.xlsx", "its name does not show its format"),
    ]:
        with pytest.raises(InputError, match=re.escape(message)):
            read_table(path)
    (tmp_path / "d.csv").mkdir()
    with pytest.raises(InputError, match="is a directory"):
        read_table(tmp_path / "d.csv")

    def denied(self: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", denied)
    with pytest.raises(InputError, match="permission denied"):
        read_table(tmp_path / "people.csv")


def test_truncated_parquet_and_gzip(tmp_path):
    path = tmp_path / "t.parquet"
    pd.DataFrame({"a": np.arange(1000)}).to_parquet(path)
    whole = path.read_bytes()
    for broken in (
        whole[:-100],
        whole[: len(whole) // 2],
        b"PAR1",
        b"not parquet",
        whole[:50] + b"x" * 60 + whole[110:],
    ):
        path.write_bytes(broken)
        with pytest.raises(InputError, match="not a complete Parquet file"):
            read_table(path)
    packed = gzip.compress(b"a,b\n1,2\n" * 100)
    for broken in (packed[:-10], b"no gzip"):
        with pytest.raises(InputError, match="not a complete gzip file"):
            read_table(csv(tmp_path, broken, "t.csv.gz"))


def test_a_misspelt_column_is_answered_with_the_nearest_name():
    with pytest.raises(InputError, match="people: no column 'sexx': did you mean 'sex'"):
        column(pd.DataFrame({"sex": [1]}), "sexx", "people")


def test_different_numbers_of_rows_are_refused():
    assert same_rows({"a": 3, "b": 3}) == 3
    with pytest.raises(InputError, match="b has 4 rows, a has 3"):
        same_rows({"a": 3, "b": 4})


# --- encoding


def test_statistics_come_from_the_training_rows_only():
    frame = pd.DataFrame({"n": [1.0, 3.0, 100.0, None], "s": ["a", None, "b", "a"]})
    matrix, names = encode_columns(frame, train=np.array([True, True, False, False]))
    assert names == ["n", "n missing", "s=a", "s=b", "s=(missing)"]
    np.testing.assert_allclose(matrix[:, 0], [-1, 1, 98, 0])  # mean 2, deviation 1; missing → median 2
    np.testing.assert_array_equal(matrix[:, 1], [0, 0, 0, 1])
    np.testing.assert_array_equal(matrix[:, 2:].argmax(axis=1), [0, 2, 1, 0])
    np.testing.assert_array_equal(matrix[:, 2:].sum(axis=1), 1)


def test_constants_booleans_dates_decimals_codes_and_empty_columns():
    frame = pd.DataFrame(
        {
            "constant": [7, 7, 7],
            "yes": [True, False, True],
            "day": pd.to_datetime(["2020-01-01", "2020-01-02", None]),
            "nothing": [None, None, None],
            "code": [1.0, 2.0, None],
            "kind": pd.Categorical(["x", "y", "x"]),
        }
    )
    matrix, names = encode_columns(frame, categorical=["code"])
    assert names == [
        *("constant", "yes", "day", "day missing", "nothing", "nothing missing"),
        *("code=1", "code=2", "code=(missing)", "kind=x", "kind=y"),
    ]
    np.testing.assert_allclose(matrix[:, :3], [[0, 1, -1], [0, 0, 1], [0, 1, 0]])
    assert np.isfinite(matrix).all()


def test_infinite_and_complex_columns_are_refused():
    with pytest.raises(InputError, match="'a' holds infinite"):
        encode_columns(pd.DataFrame({"a": [1.0, np.inf]}))
    with pytest.raises(InputError, match="complex"):
        encode_columns(pd.DataFrame({"a": [1j]}))
