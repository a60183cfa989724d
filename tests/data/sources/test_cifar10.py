"""CIFAR-10 read from a folder and from the archive, and pickles that hold more than data refused unread."""

from __future__ import annotations

import io
import os
import pickle
import tarfile

import numpy as np
import pytest

import fedveil.data
from fedveil.core.errors import InputError
from fedveil.data import Split
from fedveil.data.sources.cifar10 import CLASSES, read_pickled_arrays


def batch(n: int, seed: int) -> dict[str, object]:
    rng = np.random.default_rng(seed)
    return {
        "batch_label": f"batch {seed}",
        "labels": (np.arange(n) % 10).tolist(),
        "data": rng.integers(0, 256, (n, 3072), dtype=np.uint8),
        "filenames": [f"{i}.png" for i in range(n)],
    }


def python_2(held: dict[str, object]) -> bytes:
    """Write a batch as Python 2 wrote the published ones: byte strings for text, module names of old numpy."""
    data, labels = held["data"], held["labels"]
    assert isinstance(data, np.ndarray)
    assert isinstance(labels, list)

    def text(value: bytes) -> bytes:
        return b"U" + bytes([len(value)]) + value

    def numbers(*values: int) -> bytes:
        return b"(" + b"".join(b"J" + value.to_bytes(4, "little", signed=True) for value in values) + b"t"

    raw = data.tobytes()
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n" + numbers(0) + text(b"b") + b"tR"
        b"(K\x01" + numbers(*data.shape) + b"cnumpy\ndtype\n(" + text(b"u1") + b"K\x00K\x01tR"
        b"(K\x03" + text(b"|") + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
        b"\x89T" + len(raw).to_bytes(4, "little") + raw + b"tb"
    )  # fmt: skip
    listed = b"](" + b"".join(b"K" + bytes([label]) for label in labels) + b"e"
    return b"\x80\x02}(" + text(b"data") + array + text(b"labels") + listed + b"u."


@pytest.fixture
def folder(tmp_path, monkeypatch):
    folder = tmp_path / "data" / "cifar-10-batches-py"
    folder.mkdir(parents=True)
    for number in (1, 3):
        (folder / f"data_batch_{number}").write_bytes(python_2(batch(40, number)))
    (folder / "test_batch").write_bytes(pickle.dumps(batch(20, 9), protocol=4))
    monkeypatch.setenv("FEDVEIL_DATA", str(folder.parent))
    monkeypatch.setenv("FEDVEIL_CACHE", str(tmp_path / "cache"))
    return folder


def test_the_published_photographs(published):
    published("cifar-10-batches-py")
    data = fedveil.data.load("cifar10", target="class", sensitive="animal")
    assert data.x.shape[1:] == (3, 32, 32)
    assert 0 <= data.x.min() < 0.01
    assert 0.99 < data.x.max() <= 1
    assert data.attributes["animal"].prior == pytest.approx(0.6, abs=0.01)
    assert data.y is not None
    assert data.y.values == CLASSES
    frogs = data.y.codes == CLASSES.index("frog")
    assert (data.attributes["animal"].codes[frogs] == 1).all()
    assert data.y.prior == pytest.approx(0.1, abs=0.01)


def test_a_synthetic_folder_in_both_forms_of_pickle(folder):
    data = fedveil.data.load("cifar10", target="class", sensitive="animal")
    assert len(data) == 100
    assert data.facts["batches"] == ["data_batch_1", "data_batch_3", "test_batch"]
    assert data.rows(Split.TEST).tolist() == list(range(80, 100))
    assert len(data.rows(Split.VALIDATION)) == 10  # one of each class at least
    expected = batch(40, 3)["data"].reshape(40, 3, 32, 32) / np.float32(255)
    np.testing.assert_array_equal(data.x[40:80], expected)
    np.testing.assert_array_equal(data.x[80:], batch(20, 9)["data"].reshape(20, 3, 32, 32) / np.float32(255))
    part = fedveil.data.load("cifar10", sensitive="animal", limit=90)
    assert len(part) == 90
    assert part.y is None


def test_the_archive_serves_as_well(folder):
    with tarfile.open(folder / "cifar-10-python.tar.gz", "w:gz") as archive:
        for name in [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]:
            content = pickle.dumps(batch(20, 1), protocol=2)
            content = python_2(batch(20, 1)) if b"_codecs" in content else content
            entry = tarfile.TarInfo(f"cifar-10-batches-py/{name}")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    for file in folder.glob("*_batch*"):
        file.unlink()
    assert len(fedveil.data.load("cifar10", target="class", sensitive="animal")) == 120
    (folder / "cifar-10-python.tar.gz").write_bytes(b"no archive")
    with pytest.raises(InputError, match=r"cifar-10-python\.tar\.gz: is not a complete archive"):
        fedveil.data.load("cifar10", target="class", sensitive="animal")


class Malicious:
    """Runs a command when it is unpickled by a trusting reader."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


@pytest.mark.parametrize("protocol", [0, 2, 4, 5])
def test_a_malicious_pickle_is_refused_and_runs_nothing(folder, tmp_path, protocol):
    trace = tmp_path / "trace"
    (folder / "test_batch").write_bytes(pickle.dumps({"labels": Malicious(trace), "data": 1}, protocol=protocol))
    with pytest.raises(
        InputError, match=r"test_batch: not a pickle of plain arrays \(it refers to \w+\.system"
    ) as fault:
        fedveil.data.load("cifar10", target="class", sensitive="animal")
    assert "\n" not in str(fault.value)
    assert not trace.exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"cbuiltins\neval\n(S'1'\ntR.", "builtins.eval"),
        (b"cnumpy\nload\n(S'x'\ntR.", "numpy.load"),
        (b"cnumpy.core.multiarray\n__dict__\n.", "__dict__"),
        (b"\x80\x04\x8c\x05numpy\x8c\x10ndarray.__init__\x93.", "ndarray.__init__"),
        (b"Pelsewhere\n.", "outside itself"),
        (b"", "EOF|Ran out|input"),
        (b"\x80\x04}", "input|EOF|truncated|stack"),
        (b"not a pickle", "pickle"),
        (pickle.dumps(np.zeros(3)), "something other than bytes"),
        (pickle.dumps(np.array([{}], dtype=object), protocol=4), "something other than bytes"),
        (pickle.dumps({1, 2}, protocol=4), "holds a set"),
        (b"cnumpy\ndtype\n(S'u1'\ntR.", "holds a Dtype"),
        (b"cnumpy\nndarray\n(tR.", "unpack"),
        (b"cnumpy\nndarray\n(tR(I1\n(I9999999\ntcnumpy\ndtype\n(S'u1'\ntRI00\nS'ab'\ntb.", "2 bytes for an array"),
    ],
)
def test_whatever_else_a_pickle_holds_is_refused_in_one_line(content, message):
    with pytest.raises(InputError, match=message) as fault:
        read_pickled_arrays(content, "file")
    assert "\n" not in str(fault.value)


def test_column_major_arrays_keep_their_values():
    array = np.asfortranarray(np.arange(12, dtype=np.uint8).reshape(3, 4))
    np.testing.assert_array_equal(read_pickled_arrays(pickle.dumps(array, protocol=4), "file"), array)


@pytest.mark.parametrize(
    "wrong",
    [
        {"labels": [10] * 20},
        {"labels": [0] * 19},
        {"labels": [True] * 20},
        {"data": np.zeros((20, 10), dtype=np.uint8)},
        {"data": [1, 2]},
    ],
)
def test_a_batch_of_another_shape_is_refused(folder, wrong):
    (folder / "test_batch").write_bytes(pickle.dumps(batch(20, 9) | wrong, protocol=4))
    with pytest.raises(InputError, match="is not a batch of CIFAR-10"):
        fedveil.data.load("cifar10", target="class", sensitive="animal")


def test_a_folder_without_its_test_batch_is_refused(folder):
    (folder / "test_batch").unlink()
    with pytest.raises(InputError, match="lacks test_batch"):
        fedveil.data.load("cifar10", target="class", sensitive="animal")


@pytest.mark.parametrize("limit", [0, -5])
def test_a_limit_below_one_is_refused(folder, limit):
    with pytest.raises(InputError, match="limit must be at least 1"):
        fedveil.data.load("cifar10", sensitive="animal", limit=limit)
