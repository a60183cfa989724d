"""UTKFace from a folder and from the archive, on synthetic faces and on the published ones."""

from __future__ import annotations

import inspect
import io
import tarfile

import numpy as np
import pytest
from PIL import Image

import fedveil.data
from fedveil.core.errors import InputError
from fedveil.data import Split
from fedveil.data.sources.utkface import AGES, RACES, UTKFace, age_attribute, parse_name, race_attribute
from fedveil.data.splits import even_split

FACES = 200


def labels(face: int) -> tuple[int, int, int]:
    return (face * 7) % 90 + 1, face % 2, (face // 2) % 5


def name(face: int) -> str:
    return "_".join(map(str, labels(face))) + f"_2017010920{face:05d}000.jpg" + ".chip.jpg" * (face % 3 == 0)


def colour(face: int) -> tuple[int, int, int]:
    return face, 255 - face, 40


def picture(drawn: tuple[int, int, int], shape: tuple[int, int] = (20, 20)) -> bytes:
    held = io.BytesIO()
    Image.new("RGB", shape, drawn).save(held, "PNG")  # lossless, so that colours can be compared
    return held.getvalue()


def add(archive: tarfile.TarFile, inside: str, content: bytes) -> None:
    entry = tarfile.TarInfo(inside)
    entry.size = len(content)
    archive.addfile(entry, io.BytesIO(content))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    folder = tmp_path / "data" / "utkface"
    folder.mkdir(parents=True)
    for face in range(FACES):
        (folder / name(face)).write_bytes(picture(colour(face)))
    monkeypatch.setenv("FEDVEIL_DATA", str(folder.parent))
    monkeypatch.setenv("FEDVEIL_CACHE", str(tmp_path / "cache"))
    return folder


def load(**options):
    return fedveil.data.load("utkface", **({"target": "gender", "sensitive": "race", "size": 16} | options))


def faces_of(data) -> list[int]:
    """Return which face each record is, by its colour."""
    return np.rint((data.x[:, 0, 0, 0] + 1) * 127.5).astype(int).tolist()


def value(attribute, row: int) -> str:
    return attribute.values[attribute.codes[row]]


def test_the_published_faces(published):
    published("utkface")
    data = load(target="age", sensitive=["race", "gender"], age_classes=3, race_classes=3, size=64)
    assert data.x.shape[1:] == (3, 64, 64)
    assert data.x.dtype == np.float32
    assert -1 <= data.x.min() < -0.99
    assert 0.99 < data.x.max() <= 1
    assert abs(data.x.mean()) < 0.15
    assert data.attributes["race"].values[0] == "White"
    assert data.attributes["race"].prior == pytest.approx(0.425, abs=0.02)
    assert data.attributes["gender"].prior == pytest.approx(0.523, abs=0.02)
    assert (data.y.counts / len(data)).tolist() == pytest.approx([0.2, 0.44, 0.36], abs=0.03)
    assert len(data) + data.facts["left_out_unlabelled"] == data.facts["records_in_file"]


def test_labels_and_pixels_belong_together(folder):
    data = load(sensitive=["race", "age"])
    assert data.x.shape == (FACES, 3, 16, 16)
    assert sorted(faces_of(data)) == list(range(FACES))
    for row, face in enumerate(faces_of(data)):
        expected = np.array(colour(face), dtype=np.float32) / 127.5 - 1
        np.testing.assert_allclose(data.x[row], np.broadcast_to(expected[:, None, None], (3, 16, 16)), atol=1e-6)
        age, gender, race = labels(face)
        assert value(data.y, row) == ("male", "female")[gender]
        assert value(data.attributes["race"], row) == ("White", "Black", "Asian", "Indian", "other")[race]
        assert data.attributes["age"].codes[row] == sum(age > end for end in (19, 26, 34, 49))
    assert data.facts["pixels"] == "[-1, 1]"
    np.testing.assert_allclose(load(centred=False).x, (data.x + 1) / 2, atol=1e-6)


@pytest.mark.parametrize(
    ("classes", "codes", "values"),
    [
        (2, [0, 1, 1, 1, 1], ("White", "Black/Asian/Indian/other")),
        (3, [0, 2, 1, 2, 2], ("White", "Asian", "Black/Indian/other")),
        (4, [0, 1, 3, 2, 3], ("White", "Black", "Indian", "Asian/other")),
        (5, [0, 1, 2, 3, 4], ("White", "Black", "Asian", "Indian", "other")),
    ],
)
def test_races_as_in_table_11(classes, codes, values):
    race = race_attribute(np.arange(5), classes)
    assert (race.codes.tolist(), race.values) == (codes, values)
    assert sorted("".join(RACES[classes])) == sorted("WBAIO")


@pytest.mark.parametrize(
    ("classes", "values"),
    [
        (2, ("≤ 30", "> 30")),
        (3, ("≤ 20", "21–35", "> 35")),
        (4, ("≤ 21", "22–29", "30–45", "> 45")),
        (5, ("≤ 19", "20–26", "27–34", "35–49", "> 49")),
    ],
)
def test_ages_as_in_table_10(classes, values):
    assert age_attribute(np.array([0]), classes).values == values
    ends = np.array(AGES[classes])
    assert age_attribute(ends, classes).codes.tolist() == list(range(classes - 1))
    assert age_attribute(ends + 1, classes).codes.tolist() == list(range(1, classes))
    assert age_attribute(np.array([0, 116]), classes).codes.tolist() == [0, classes - 1]


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("100_1_2_20170112213615815.jpg", (100, 1, 2)),
        ("24_0_1_20170116220224657 .jpg.chip.jpg", (24, 0, 1)),
        ("55_0_0_20170116232725357jpg.jpg", (55, 0, 0)),
        ("61_1_20170109142408075.jpg.chip.jpg", None),
        ("53__0_20170116184028385.jpg", None),
        ("26_2_0_20170116184028385.jpg", None),
        ("26_1_5_20170116184028385.jpg", None),
        ("117_1_0_20170116184028385.jpg", None),
        ("26_1_0_.jpg", None),
        ("26_1_0_20170116184028385.png", None),
    ],
)
def test_names(name, labels):
    assert parse_name(name) == labels


def test_names_that_do_not_parse_are_left_out_and_counted(folder):
    for name in ("61_1_20170109142408075.jpg.chip.jpg", "portrait.jpg"):
        (folder / name).write_bytes(b"never read")
    (folder / "README.txt").write_text("no picture")
    data = load()
    assert len(data) == FACES
    assert data.facts["records_in_file"] == FACES + 2
    assert data.facts["left_out_unlabelled"] == 2


PAPERS_SPLIT = {Split.TRAIN: 18_964 - 1_896, Split.VALIDATION: 1_896, Split.TEST: 4_741}


def test_the_papers_split():
    """The sizes for the default shares of as many faces of the five races (Table 11), in total and by race."""
    defaults = inspect.signature(UTKFace.read).parameters
    shares = {part: defaults[part].default for part in ("validation", "test")}
    races = np.repeat(np.arange(5), (10_078, 4_526, 3_434, 3_975, 1_692))
    split = even_split(races, seed=0, **shares)
    assert {part: int((split == part).sum()) for part in Split} == PAPERS_SPLIT
    for race in range(5):
        part = split[races == race]
        assert (part == Split.TEST).sum() == pytest.approx(0.2 * len(part), abs=1)
        assert (part == Split.VALIDATION).sum() == pytest.approx(0.08 * len(part), abs=1.1)
    assert not np.array_equal(split, even_split(races, seed=1, **shares))
    np.testing.assert_array_equal(split, even_split(races, seed=0, **shares))


@pytest.mark.slow
def test_the_papers_split_of_as_many_files(folder, monkeypatch):
    """23,708 names in an archive, three of which lack the race."""
    archived = folder.parent / "archived" / "utkface"
    archived.mkdir(parents=True)
    content = picture((1, 2, 3), (8, 8))
    with tarfile.open(archived / "UTKFace.tar.gz", "w") as archive:
        for face in range(23_705):
            add(archive, f"UTKFace/{'_'.join(map(str, labels(face)))}_{face}.jpg.chip.jpg", content)
        for face in range(3):
            add(archive, f"UTKFace/61_1_2017010914240807{face}.jpg.chip.jpg", content)
    monkeypatch.setenv("FEDVEIL_DATA", str(archived.parent))
    data = load(size=8)
    assert data.facts["left_out_unlabelled"] == 3
    assert {split: len(data.rows(split)) for split in Split} == PAPERS_SPLIT


def test_the_split_does_not_depend_on_what_is_asked_for(folder):
    first, other = load(), load(target="age", sensitive="race", race_classes=2)
    np.testing.assert_array_equal(first.split, other.split)
    assert [len(first.rows(split)) for split in Split] == [144, 16, 40]
    assert not np.array_equal(load(seed=1).split, first.split)


def test_the_archive_and_its_unpacked_folder_serve_as_well(folder):
    flat = load()
    inner = folder / "UTKFace"
    inner.mkdir()
    for path in list(folder.glob("*.jpg")):
        path.rename(inner / path.name)
    (folder / "crop_part1").mkdir()  # another crop of some of the faces, which some downloads include
    (folder / "crop_part1" / name(0)).write_bytes(b"never read")
    np.testing.assert_array_equal(load().x, flat.x)
    with tarfile.open(folder / "UTKFace.tar.gz", "w:gz") as archive:
        archive.add(inner, "UTKFace")
    inner.rename(folder.parent / "elsewhere")
    packed = load()
    np.testing.assert_array_equal(packed.x, flat.x)
    np.testing.assert_array_equal(packed.split, flat.split)
    whole = (folder / "UTKFace.tar.gz").read_bytes()
    (folder / "UTKFace.tar.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"UTKFace\.tar\.gz: is not a complete archive"):
        load()


def test_pictures_that_are_not_square_give_their_middle(folder):
    drawn = np.zeros((20, 60, 3), dtype=np.uint8)
    drawn[:, 20:40] = colour(8)
    Image.fromarray(drawn).save(folder / name(8), "PNG")
    assert sorted(faces_of(load())) == list(range(FACES))
    Image.fromarray(drawn[:, 20:40, 0]).save(folder / name(9), "PNG")  # without colour
    assert load().x.shape == (FACES, 3, 16, 16)


@pytest.mark.parametrize("content", [b"no picture", picture((1, 2, 3))[:60], b""])
def test_an_unreadable_picture(folder, content):
    (folder / name(11)).write_bytes(content)
    with pytest.raises(InputError, match=f"{name(11)}: cannot be read as a picture") as fault:
        load()
    assert "\n" not in str(fault.value)


def test_a_folder_without_faces(folder):
    for path in folder.glob("*.jpg"):
        path.unlink()
    with pytest.raises(InputError, match=r"utkface: lacks \*\*/\*\.jpg; complete the folder or remove it"):
        load()
    (folder / "portrait.jpg").write_bytes(picture((1, 2, 3)))
    with pytest.raises(InputError, match=r"holds no faces named age_gender_race_date\.jpg \(1 other pictures\)"):
        load()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"age_classes": 7}, "age_classes must be 2, 3, 4 or 5, got 7"),
        ({"race_classes": 1}, "race_classes must be 2, 3, 4 or 5, got 1"),
        ({"size": 4}, "size must lie between 8 and 200"),
        ({"test": 0.95}, "leave training records"),
        ({"limit": 0}, "limit must be at least 1"),
        ({"sensitive": "gender"}, "both target and sensitive"),
        ({"sensitive": "rase"}, r"no sensitive attribute 'rase'.*race"),
    ],
)
def test_bad_options(folder, options, message):
    with pytest.raises(InputError, match=message):
        load(**options)


def test_a_limit_loads_a_part(folder):
    data = load(limit=90, race_classes=2)
    assert len(data) == 90
    assert set(faces_of(data)) < set(range(FACES))
    assert data.facts["records_in_file"] == FACES
