"""Labeled Faces in the Wild from a folder and from the archive, with published and synthetic faces."""

from __future__ import annotations

import io
import tarfile

import numpy as np
import pytest
from PIL import Image

import fedveil.data
from fedveil.core.errors import InputError
from fedveil.data import Split
from fedveil.data.sources.lfw import COLUMNS

NAMES = [*(column for columns in COLUMNS.values() for column in columns), "Smiling"]
PEOPLE = 60


def face(person: int, shot: int) -> bytes:
    """Draw a face whose middle has one colour per person and picture, and a black rim outside the cut."""
    colour = (4 * person, 100 * shot, 200)
    drawn = np.zeros((250, 250, 3), dtype=np.uint8)
    drawn[70:195, 78:172] = colour
    held = io.BytesIO()
    Image.fromarray(drawn).save(held, "PNG")  # lossless, so that colours can be compared; the reader goes by content
    return held.getvalue()


def scores(person: int, shot: int, **others: float) -> dict[str, float]:
    scored = dict.fromkeys(NAMES, -0.5)
    scored[("Asian", "White", "Black")[person % 3]] = 1.5
    scored[("Male", "Female")[person % 2]] = 1.0
    scored["Smiling"] = 1.0 if (person + shot) % 2 else -1.0
    return scored | others


def labels(lines: dict[tuple[str, int], dict[str, float]], names: list[str] = NAMES) -> str:
    head = ["# scores", "\t".join(["#", "person", "imagenum", *names])]
    rows = ["\t".join([who, str(shot), *(str(scored[n]) for n in names)]) for (who, shot), scored in lines.items()]
    return "\n".join([*head, *rows]) + "\n"


def everyone() -> dict[tuple[str, int], dict[str, float]]:
    lines = {(f"Person No{person}", shot): scores(person, shot) for person in range(PEOPLE) for shot in (1, 2)}
    lines["Person No0", 1]["Black"] = 2.0  # Asian and Black: of unknown race
    return lines


@pytest.fixture
def folder(tmp_path, monkeypatch):
    folder = tmp_path / "data" / "lfw"
    for person in range(PEOPLE):
        pictures = folder / "lfw-deepfunneled" / f"Person_No{person}"
        pictures.mkdir(parents=True)
        for shot in (1, 2):
            (pictures / f"Person_No{person}_{shot:04d}.jpg").write_bytes(face(person, shot))
    (folder / "lfw_attributes.txt").write_text(labels(everyone()))
    monkeypatch.setenv("FEDVEIL_DATA", str(folder.parent))
    monkeypatch.setenv("FEDVEIL_CACHE", str(tmp_path / "cache"))
    return folder


def load(**options):
    return fedveil.data.load("lfw", **({"target": "smiling", "sensitive": "race"} | options))


def one_side(groups, split):
    return all(len(set(split[groups == group])) == 1 for group in set(groups))


def test_the_published_faces(published):
    published("lfw")
    data = load(sensitive=["race", "gender"], limit=600)
    assert data.x.shape == (600, 3, 62, 47)
    assert 0.2 < data.x.mean() < 0.7
    assert data.x.max() > 0.99
    assert data.attributes["race"].prior == pytest.approx(0.87, abs=0.04)
    assert data.attributes["gender"].prior == pytest.approx(0.77, abs=0.05)
    assert one_side(data.groups, data.split)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_rare_values_reach_every_split_of_the_published_faces(published, seed):
    published("lfw")
    data = load(sensitive="age", seed=seed)  # the checks refuse a split without any of the five babies
    assert data.attributes["age"].values == ("baby", "child", "youth", "middle-aged", "senior")
    assert one_side(data.groups, data.split)


def test_a_synthetic_folder(folder):
    data = load()
    assert len(data) == 2 * PEOPLE - 1
    assert data.facts["left_out_unlabelled"] == 1
    person, shot = 7, 2
    row = 2 * person + shot - 2  # the first record is left out
    expected = np.array([4 * person, 100 * shot, 200], dtype=np.float32) / 255
    np.testing.assert_allclose(data.x[row], np.broadcast_to(expected[:, None, None], (3, 62, 47)), atol=1e-6)
    assert data.attributes["race"].values[data.attributes["race"].codes[row]] == "White"
    assert data.y.values[data.y.codes[row]] == "yes"
    assert one_side(data.groups, data.split)
    assert all(len(data.rows(split)) for split in Split)
    same = load()
    np.testing.assert_array_equal(same.split, data.split)


def test_unlabelled_records_stay_if_asked(folder):
    data = load(sensitive=["race", "gender"], unlabelled=True)
    assert len(data) == 2 * PEOPLE
    assert data.attributes["race"].codes[0] == -1
    assert data.attributes["gender"].codes[0] == 0


def test_a_file_without_a_column_for_women(folder):
    names = [name for name in NAMES if name != "Female"]
    (folder / "lfw_attributes.txt").write_text(labels(everyone(), names))
    assert load(sensitive="gender").attributes["gender"].counts.tolist() == [PEOPLE, PEOPLE]


def test_the_archive_serves_as_well(folder):
    unpacked = load()
    with tarfile.open(folder / "lfw-deepfunneled.tgz", "w:gz") as archive:
        archive.add(folder / "lfw-deepfunneled", "lfw-deepfunneled")
    (folder / "lfw-deepfunneled").rename(folder.parent / "elsewhere")
    np.testing.assert_array_equal(load().x, unpacked.x)
    whole = (folder / "lfw-deepfunneled.tgz").read_bytes()
    (folder / "lfw-deepfunneled.tgz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"lfw-deepfunneled\.tgz: is not a complete archive"):
        load()
    (folder / "lfw-deepfunneled.tgz").unlink()
    with pytest.raises(InputError, match=r"lacks lfw-deepfunneled/ and lfw-deepfunneled\.tgz"):
        load()


def test_an_archive_without_a_picture(folder):
    with tarfile.open(folder / "lfw-deepfunneled.tgz", "w:gz") as archive:
        archive.add(folder / "lfw-deepfunneled" / "Person_No1", "lfw-deepfunneled/Person_No1")
    (folder / "lfw-deepfunneled").rename(folder.parent / "elsewhere")
    with pytest.raises(InputError, match=r"lacks Person_No0/.* \(117 files in total\)"):
        load()


@pytest.mark.parametrize("content", [b"no picture", face(3, 1)[:300], b""])
def test_an_unreadable_picture(folder, content):
    (folder / "lfw-deepfunneled" / "Person_No3" / "Person_No3_0001.jpg").write_bytes(content)
    with pytest.raises(InputError, match=r"Person_No3_0001\.jpg: cannot be read as a picture") as fault:
        load()
    assert "\n" not in str(fault.value)


def test_a_missing_or_too_small_picture(folder):
    path = folder / "lfw-deepfunneled" / "Person_No3" / "Person_No3_0001.jpg"
    Image.new("RGB", (100, 100)).save(path)
    with pytest.raises(InputError, match="100 × 100 pixels, at least 172 × 195 are needed"):
        load()
    path.unlink()
    with pytest.raises(InputError, match=r"Person_No3_0001\.jpg: cannot be read \(No such file"):
        load()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it ends after its first lines"),
        ("# scores\n#\tperson\timagenum\n", "No columns"),
        ("# scores\n#\tperson\timagenum\nA B\t1\n", "lacks Asian"),
        ("# scores\n#\tperson\nA B\t1\n", "2 columns, 1 names"),
        (labels({("A B", 1): scores(1, 1) | {"Smiling": "often"}}), "Smiling is not a number"),  # type: ignore[dict-item]
        (labels({("../A", 1): scores(1, 1)}), "not the name of a folder"),
    ],
)
def test_a_broken_list(folder, text, message):
    (folder / "lfw_attributes.txt").write_text(text)
    with pytest.raises(InputError, match=f"cannot be read as LFW's attributes .*{message}") as fault:
        load()
    assert "\n" not in str(fault.value)


def test_unknown_names_and_limits(folder):
    with pytest.raises(InputError, match=r"no sensitive attribute 'rase'.*race"):
        load(sensitive="rase")
    with pytest.raises(InputError, match="limit must be at least 1"):
        load(limit=0)
    assert len(load(limit=90)) == 90
