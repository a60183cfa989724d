from __future__ import annotations

import gzip
import io
import pickle
import re
import unicodedata
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedveil.data import Attribute
from fedveil.errors import InputError
from fedveil.tables import column, encode_columns, read_table, read_vectors, same_rows


def csv(tmp_path: Path, data: bytes | str, name: str = "t.csv") -> Path:
    path = tmp_path / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def npy_bytes(array: np.ndarray, **options: bool) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, **options)
    return buffer.getvalue()


# --- tables that are well


def test_csv_with_bom_blanks_quotes_and_missing_values(tmp_path):
    frame = read_table(csv(tmp_path, '\ufeff a , b,c \n1, x ,"p, q"\n\n2,NA,"r\ns"\n'))
    assert list(frame.columns) == ["a", "b", "c"]
    assert frame["a"].tolist() == [1, 2]
    assert frame["b"].isna().tolist() == [False, True]
    assert frame["b"].iloc[0] == "x"
    assert frame["c"].tolist() == ["p, q", "r\ns"]


def test_inches_in_plain_cells_are_no_quotes(tmp_path):
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


# --- tables that are not


@pytest.mark.parametrize(
    ("data", "says"),
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
        ("a,b,a\n1,2,3\n", "column 'a' stands there 2 times"),
        ("a, a\n1,2\n", "column 'a' stands there 2 times"),
        ("", "is empty"),
        ("\n \n", "is empty"),
        ("a,b\n", "no rows"),
        ("a;b\n1;2\n", "separated by ';'"),
        ("1.5,2\n3,4\n", "first line holds numbers"),
        ("a\n1\n\n2\n", "line 3 is blank"),
    ],
)
def test_faulty_csv_is_refused_in_one_line(tmp_path, data, says):
    path = csv(tmp_path, data)
    with pytest.raises(InputError) as caught:
        read_table(path)
    assert says in str(caught.value)
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
    for path, says in [
        (tmp_path / "peple.csv", "no such file: did you mean 'people.csv'?"),
        (tmp_path / "no" / "t.csv", "there is no folder"),
        (tmp_path / "t.xlsx", "cannot tell its format"),
    ]:
        with pytest.raises(InputError, match=re.escape(says)):
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
        with pytest.raises(InputError, match="not a whole Parquet file"):
            read_table(path)
    packed = gzip.compress(b"a,b\n1,2\n" * 100)
    for broken in (packed[:-10], b"no gzip"):
        with pytest.raises(InputError, match="not a whole gzip file"):
            read_table(csv(tmp_path, broken, "t.csv.gz"))


def test_column_names_the_nearest():
    with pytest.raises(InputError, match="people: no column 'sexx': did you mean 'sex'"):
        column(pd.DataFrame({"sex": [1]}), "sexx", "people")


def test_same_rows():
    assert same_rows({"a": 3, "b": 3}) == 3
    with pytest.raises(InputError, match="b has 4 rows, a has 3"):
        same_rows({"a": 3, "b": 4})


# --- vectors


@pytest.mark.parametrize(
    ("shape", "expected"), [((5,), (5, 1)), ((5, 3), (5, 3)), ((5, 2, 3), (5, 6)), ((5, 1, 2, 2), (5, 4))]
)
def test_arrays_become_one_vector_per_row(tmp_path, shape, expected):
    array = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
    vectors, names = read_vectors(csv(tmp_path, npy_bytes(array), "v.npy"))
    assert vectors.shape == expected
    assert vectors.dtype == np.float64
    assert len(names) == expected[1]
    np.testing.assert_array_equal(vectors.ravel(), array.ravel())


def test_float32_stays_and_big_endian_becomes_native(tmp_path):
    assert read_vectors(csv(tmp_path, npy_bytes(np.ones((2, 2), ">f4")), "v.npy"))[0].dtype == np.dtype("=f4")
    assert read_vectors(csv(tmp_path, npy_bytes(np.ones((2, 2), "f2")), "v.npy"))[0].dtype == np.float64


def test_npz_by_key(tmp_path):
    path = tmp_path / "v.npz"
    np.savez(path, a=np.zeros((2, 3)), b=np.ones((4, 1)))
    assert read_vectors(path, key="b")[0].shape == (4, 1)
    with pytest.raises(InputError, match=r"holds 2 arrays \(a, b\); choose one by --key"):
        read_vectors(path)
    with pytest.raises(InputError, match="no array 'c'"):
        read_vectors(path, key="c")
    np.savez_compressed(path, a=np.zeros((2, 3)))
    assert read_vectors(path)[0].shape == (2, 3)


def test_columns_and_drop(tmp_path):
    path = csv(tmp_path, "id,a,b\nx,1,2\ny,3,4\n")
    assert read_vectors(path, drop=["id"])[0].tolist() == [[1, 2], [3, 4]]
    assert read_vectors(path, columns=["b"])[0].tolist() == [[2], [4]]
    assert read_vectors(path, columns=["b", "a"], drop=["a"])[1] == ["b"]
    array = csv(tmp_path, npy_bytes(np.arange(6.0).reshape(2, 3)), "v.npy")
    assert read_vectors(array, columns=["2", "0"])[0].tolist() == [[2, 0], [5, 3]]
    assert read_vectors(array, drop=["1"])[1] == ["0", "2"]
    for fault in ({"columns": ["c"]}, {"drop": ["c"]}):
        with pytest.raises(InputError, match="no column 'c'"):
            read_vectors(path, **fault)
    with pytest.raises(InputError, match="no column is left"):
        read_vectors(path, drop=["id", "a", "b"])


def test_parquet_lists_are_vectors(tmp_path):
    path = tmp_path / "v.parquet"
    pd.DataFrame({"e": [[1.0, 2.0], [3.0, 4.0]], "f": [5, 6]}).to_parquet(path)
    vectors, names = read_vectors(path)
    assert vectors.tolist() == [[1, 2, 5], [3, 4, 6]]
    assert names == ["e[0]", "e[1]", "f"]
    pd.DataFrame({"e": [[1.0, 2.0], [3.0]]}).to_parquet(path)
    with pytest.raises(InputError, match=r"lists in column 'e' differ in length \(2 in row 1, 1 in row 2\)"):
        read_vectors(path)


NESTED = {
    "lists": ([[1.0, 2.0], [3.0, 4.0]], pa.list_(pa.float64())),
    "lists of lists": ([[[1.0], [2.0]], [[3.0], [4.0]]], pa.list_(pa.list_(pa.float64()))),
    "lists of text": ([["a"], ["b"]], pa.list_(pa.string())),
    "structs": ([{"x": 1.0}, {"x": 2.0}], pa.struct([("x", pa.float64())])),
    "maps": ([[("x", 1.0)], [("y", 2.0)]], pa.map_(pa.string(), pa.float64())),
}


def nested(tmp_path: Path, kind: str, first: bool = False) -> Path:
    """Write a nested column `e`, whose first row may be missing, beside a plain one."""
    rows, of = NESTED[kind]
    path = tmp_path / "nested.parquet"
    parquet.write_table(pa.table({"e": pa.array([None, *rows] if first else rows, of), "f": range(2 + first)}), path)
    return path


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("kind", sorted(set(NESTED) - {"lists"}))
def test_nested_columns_that_are_no_vectors_are_named_for_what_they_are(tmp_path, kind, first):
    with pytest.raises(InputError, match=f"column 'e' holds {kind}, not numbers or lists of numbers"):
        read_vectors(nested(tmp_path, kind, first))


def test_a_missing_list_is_named_by_its_row(tmp_path):
    with pytest.raises(InputError, match="column 'e' has no list in row 1; fill or remove that row"):
        read_vectors(nested(tmp_path, "lists", first=True))


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("kind", NESTED)
def test_a_nested_column_is_no_attribute_group_or_given(tmp_path, kind, first):
    frame = read_table(nested(tmp_path, kind, first))
    with pytest.raises(InputError, match=rf"people: column 'e' holds {kind}, not one value per row; choose another"):
        column(frame, "e", "people")
    with pytest.raises(InputError, match=f"attribute 'e' holds {kind}, not one value per record"):
        Attribute.from_column("e", frame["e"])
    with pytest.raises(InputError, match=f"column 'e' holds {kind}, not one value per record"):
        encode_columns(frame)


@pytest.mark.parametrize("of", [pa.binary(), pa.large_binary()])
def test_bytes_are_read_as_text(tmp_path, of):
    path = tmp_path / "bytes.parquet"
    rows = ["f", "ä", None, "f"]
    parquet.write_table(pa.table({"sex": pa.array([row and row.encode() for row in rows], of)}), path)
    sex = Attribute.from_column("sex", column(read_table(path), "sex", path))
    assert sex.values == ("f", "ä")
    assert sex.codes.tolist() == [0, 1, -1, 0]
    assert Attribute.from_column("sex", [b"m", b"f"]).values == ("f", "m")
    parquet.write_table(pa.table({"sex": pa.array([b"f", b"\xff"], of)}), path)
    assert Attribute.from_column("sex", read_table(path)["sex"]).values == (r"\xff", "f")


def test_an_attribute_without_any_value_has_none():
    assert Attribute.from_column("a", [None, None]).values == ()
    assert Attribute.from_column("a", [np.nan, np.nan]).codes.tolist() == [-1, -1]


def test_a_damaged_page_is_noticed(tmp_path):
    path = tmp_path / "t.parquet"
    parquet.write_table(
        pa.table({"a": np.arange(1000.0)}), path, compression="NONE", use_dictionary=False, write_page_checksum=True
    )
    whole = bytearray(path.read_bytes())
    whole[4000] ^= 1  # amid the numbers: without a checksum one of them would merely be another
    path.write_bytes(whole)
    with pytest.raises(InputError, match="not a whole Parquet file"):
        read_table(path)


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_names_are_the_same_however_their_accents_are_written(tmp_path, name):
    composed, apart = "größe", unicodedata.normalize("NFD", "größe")
    assert composed != apart
    for written, asked in ((composed, apart), (apart, composed)):
        frame, path = pd.DataFrame({written: [1, 2], "b": [3, 4]}), tmp_path / name
        frame.to_parquet(path) if name.endswith("parquet") else frame.to_csv(path, index=False)
        assert column(read_table(path), asked, path).tolist() == [1, 2]
        assert read_table(path, [asked])[composed].tolist() == [1, 2]
        assert read_vectors(path, drop=[asked])[1] == ["b"]
        assert read_vectors(path, columns=[asked])[1] == [composed]
    frame = pd.DataFrame([[1, 2]], columns=[composed, apart])
    frame.to_parquet(path) if name.endswith("parquet") else frame.to_csv(path, index=False)
    with pytest.raises(InputError, match="stands there 2 times"):
        read_table(path)


def test_a_column_named_twice(tmp_path):
    array = csv(tmp_path, npy_bytes(np.zeros((2, 3))), "v.npy")
    table = csv(tmp_path, "a,b\n1,2\n", "v.csv")
    for path, name in ((array, "0"), (table, "a")):
        with pytest.raises(InputError, match=f"column '{name}' is named twice; name it once"):
            read_vectors(path, columns=[name, name])


def test_the_hint_for_a_missing_file_looks_at_its_name_and_not_at_its_ending(tmp_path):
    for name in ("inf.npy", "vectors.csv", "vectors.npz", "notes.txt"):
        csv(tmp_path, "a\n1\n", name)
    for asked, hint in [
        ("missing.npy", "; check the path"),
        ("vectors.npy", ": did you mean 'vectors.npz'?"),
        ("vector.csv", ": did you mean 'vectors.csv'?"),
        ("note.csv", "; check the path"),
    ]:
        with pytest.raises(InputError) as caught:
            read_vectors(tmp_path / asked)
        assert str(caught.value) == f"{tmp_path / asked}: no such file{hint}"


class Trap:
    """Would be noticed if a file's code ran."""

    def __reduce__(self):
        return (pytest.fail, ("code in a file was run",))


def zipped(member: str, data: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(member, data)
    return buffer.getvalue()


WHOLE_NPY = npy_bytes(np.arange(100.0).reshape(10, 10))
WHOLE_NPZ = zipped("a.npy", WHOLE_NPY)


@pytest.mark.parametrize(
    ("name", "data", "says"),
    [
        ("v.npy", WHOLE_NPY[:-8], "not a whole numpy file"),
        ("v.npy", WHOLE_NPY[:20], "not a whole numpy file"),
        ("v.npy", b"garbage", "not a whole numpy file"),
        ("v.npy", b"", "is empty"),
        ("v.npy", pickle.dumps(Trap()), "not a whole numpy file"),
        ("v.npy", npy_bytes(np.array([Trap(), 1], dtype=object), allow_pickle=True), "Python objects"),
        ("v.npz", zipped("a.npy", npy_bytes(np.array([Trap()], dtype=object), allow_pickle=True)), "Python objects"),
        ("v.npz", b"no zip at all", "not a whole numpy file"),
        ("v.npz", WHOLE_NPZ[:-30], "not a whole numpy file"),
        ("v.npz", WHOLE_NPZ[:100] + b"\xff" * 50 + WHOLE_NPZ[150:], "not a whole numpy file"),
        ("v.npz", zipped("a.txt", b"hello"), "is no numpy array"),
        ("v.npy", npy_bytes(np.array(["x"])), "holds text"),
        ("v.npy", npy_bytes(np.array([1j])), "complex"),
        ("v.npy", npy_bytes(np.array(["2020-01-01"], dtype="datetime64[D]")), "datetime64[D] values"),
        ("v.npy", npy_bytes(np.float64(3)), "a single number"),
        ("v.npy", npy_bytes(np.zeros((0, 3))), "no rows"),
        ("v.npy", npy_bytes(np.zeros((3, 0))), "no column"),
        ("v.npy", npy_bytes(np.array([[1.0, np.nan], [np.inf, 1.0]])), "2 of 4 values are missing, NaN or infinite"),
        ("v.csv", b"a,b\n1,2\n3,\n", "(first: row 2, column 'b')"),
        ("v.csv", b"a,name\n1,bob\n", "column 'name' holds text (such as 'bob')"),
        ("v.csv", b"a,day\n1,2020-01-01\n", "column 'day' holds dates (such as '2020-01-01"),
        ("v.csv", b"a,none\n1,\n", "missing, NaN or infinite"),
        ("v.txt", b"1", "cannot tell its format"),
    ],
)
def test_faulty_vectors_are_refused_in_one_line(tmp_path, name, data, says):
    path = csv(tmp_path, data, name)
    with pytest.raises(InputError) as caught:
        read_vectors(path)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


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
