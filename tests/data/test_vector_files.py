from __future__ import annotations

import io
import pickle
import tracemalloc
import unicodedata
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from table_files import csv, npy_bytes

from fedveil.core.errors import InputError
from fedveil.data import Attribute
from fedveil.data.encoding import encode_columns
from fedveil.data.tables import column, read_table, read_vectors


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
def test_nested_columns_that_are_not_vectors_are_named_with_their_type(tmp_path, kind, first):
    with pytest.raises(InputError, match=f"column 'e' holds {kind}, not numbers or lists of numbers"):
        read_vectors(nested(tmp_path, kind, first))


def test_a_missing_list_is_named_by_its_row(tmp_path):
    with pytest.raises(InputError, match="column 'e' has no list in row 1; fill or remove that row"):
        read_vectors(nested(tmp_path, "lists", first=True))


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("kind", NESTED)
def test_a_nested_column_cannot_be_an_attribute_a_group_or_given(tmp_path, kind, first):
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
    whole[4000] ^= 1  # inside the numbers: without a checksum one of them would silently change
    path.write_bytes(whole)
    with pytest.raises(InputError, match="not a complete Parquet file"):
        read_table(path)


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_names_are_the_same_however_their_accents_are_written(tmp_path, name):
    composed, apart = "größe", unicodedata.normalize("NFD", "größe")
    assert composed != apart
    for written, wanted in ((composed, apart), (apart, composed)):
        frame, path = pd.DataFrame({written: [1, 2], "b": [3, 4]}), tmp_path / name
        frame.to_parquet(path) if name.endswith("parquet") else frame.to_csv(path, index=False)
        assert column(read_table(path), wanted, path).tolist() == [1, 2]
        assert read_table(path, [wanted])[composed].tolist() == [1, 2]
        assert read_vectors(path, drop=[wanted])[1] == ["b"]
        assert read_vectors(path, columns=[wanted])[1] == [composed]
    frame = pd.DataFrame([[1, 2]], columns=[composed, apart])
    frame.to_parquet(path) if name.endswith("parquet") else frame.to_csv(path, index=False)
    with pytest.raises(InputError, match="has 2 columns named"):
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
    for name, hint in [
        ("missing.npy", "; check the path"),
        ("vectors.npy", ": did you mean 'vectors.npz'?"),
        ("vector.csv", ": did you mean 'vectors.csv'?"),
        ("note.csv", "; check the path"),
    ]:
        with pytest.raises(InputError) as caught:
            read_vectors(tmp_path / name)
        assert str(caught.value) == f"{tmp_path / name}: no such file{hint}"


class Trap:
    """Leaves a trace if a file's code is run."""

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
    ("name", "data", "message"),
    [
        ("v.npy", WHOLE_NPY[:-8], "not a complete numpy file"),
        ("v.npy", WHOLE_NPY[:20], "not a complete numpy file"),
        ("v.npy", b"garbage", "not a complete numpy file"),
        ("v.npy", b"", "is empty"),
        ("v.npy", pickle.dumps(Trap()), "not a complete numpy file"),
        ("v.npy", npy_bytes(np.array([Trap(), 1], dtype=object), allow_pickle=True), "Python objects"),
        ("v.npz", zipped("a.npy", npy_bytes(np.array([Trap()], dtype=object), allow_pickle=True)), "Python objects"),
        ("v.npz", b"no zip at all", "not a complete numpy file"),
        ("v.npz", WHOLE_NPZ[:-30], "not a complete numpy file"),
        ("v.npz", WHOLE_NPZ[:100] + b"\xff" * 50 + WHOLE_NPZ[150:], "not a complete numpy file"),
        ("v.npz", zipped("a.txt", b"hello"), "is not a numpy array"),
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
        ("v.txt", b"1", "its name does not show its format"),
    ],
)
def test_faulty_vectors_are_refused_in_one_line(tmp_path, name, data, message):
    path = csv(tmp_path, data, name)
    with pytest.raises(InputError) as caught:
        read_vectors(path)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_mapped_file_is_read_like_any_other_and_stays_on_disk(tmp_path):
    vectors = np.random.default_rng(0).standard_normal((50_000, 64), dtype=np.float32)
    np.save(tmp_path / "v.npy", vectors)
    tracemalloc.start()
    mapped, names = read_vectors(tmp_path / "v.npy", mapped=True)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < vectors.nbytes / 2
    np.testing.assert_array_equal(mapped, vectors)
    assert len(names) == 64
    for name, data, message in (("cut.npy", npy_bytes(vectors)[:-9], "complete"), ("none.npy", b"", "empty")):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(InputError, match=message):
            read_vectors(tmp_path / name, mapped=True)
    with pytest.raises(InputError, match="no such file"):
        read_vectors(tmp_path / "missing.npy", mapped=True)
