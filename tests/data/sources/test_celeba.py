"""CelebA in its published layout, on synthetic faces: pictures, attributes, partition, identities."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from synthetic_celeba import FACES, label, part, write_celeba, write_labels

import fedveil.data
from fedveil.core.errors import InputError


@pytest.fixture
def folder(tmp_path, monkeypatch):
    folder = tmp_path / "data" / "celeba"
    write_celeba(folder)
    monkeypatch.setenv("FEDVEIL_DATA", str(folder.parent))
    monkeypatch.setenv("FEDVEIL_CACHE", str(tmp_path / "cache"))
    return folder


def load(**options):
    return fedveil.data.load("celeba", **({"target": "gender", "sensitive": "age"} | options))


def test_faces_labels_and_the_published_partition(folder):
    data = load(sensitive=["age", "smiling"])
    assert data.x.shape == (FACES, 3, 32, 32)
    face = 37
    expected = np.array([2 * face, 255 - 2 * face, 50], dtype=np.float32) / 255
    np.testing.assert_allclose(data.x[face], np.broadcast_to(expected[:, None, None], (3, 32, 32)), atol=1e-6)
    assert data.split.tolist() == [part(face) for face in range(FACES)]
    assert data.y.values[data.y.codes[face]] == "male"
    assert data.attributes["age"].values[data.attributes["age"].codes[face]] == "young"
    assert data.attributes["smiling"].values[data.attributes["smiling"].codes[face]] == "no"
    assert data.groups is None
    assert data.facts["split"] == "as published"


def test_hair_is_exactly_one_colour_and_any_label_can_be_the_task(folder):
    data = load(target="smiling", sensitive="hair", size=64)
    assert data.x.shape == (108, 3, 64, 64)
    assert data.facts["left_out_unlabelled"] == 12
    assert data.attributes["hair"].values == ("black", "blond", "brown")
    assert load(target="hair", sensitive="gender").y.name == "hair"
    with pytest.raises(InputError, match="both target and sensitive"):
        load(target="age")


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("mouth_open", "Mouth_Slightly_Open"),
        ("heavy_makeup", "Heavy_Makeup"),
        ("wavy_hair", "Wavy_Hair"),
        ("attractive", "Attractive"),
    ],
)
def test_further_attributes_serve_as_attribute_and_as_task(folder, name, column):
    expected = ["yes" if label(face)[column] > 0 else "no" for face in range(FACES)]
    hidden = load(target="smiling", sensitive=name).attributes[name]
    task = load(target=name, sensitive="smiling").y
    for data in (hidden, task):
        assert [data.values[code] for code in data.codes] == expected


def test_pixels_around_zero(folder):
    centred = load(centred=True)
    np.testing.assert_allclose(centred.x, 2 * load().x - 1, atol=1e-6)
    assert centred.x.min() < -0.9
    assert (centred.facts["pixels"], load().facts["pixels"]) == ("[-1, 1]", "[0, 1]")


def test_people_are_groups_where_they_are_listed(folder):
    listed = "".join(f"{face + 1:06d}.jpg {face // 4}\n" for face in range(FACES))
    (folder / "identity_CelebA.txt").write_text(listed)
    assert load(limit=100).groups is not None
    assert load().groups.tolist() == [face // 4 for face in range(FACES)]
    (folder / "identity_CelebA.txt").write_text("000001.jpg 1\n")
    with pytest.raises(InputError, match="some pictures are not listed"):
        load()


def test_the_archive_serves_as_well(folder):
    unpacked = load()
    shutil.make_archive(str(folder / "img_align_celeba"), "zip", folder, "img_align_celeba")
    shutil.rmtree(folder / "img_align_celeba")
    np.testing.assert_array_equal(load().x, unpacked.x)
    (folder / "img_align_celeba.zip").unlink()
    with pytest.raises(InputError, match=r"lacks img_align_celeba/ and img_align_celeba\.zip"):
        load()


def test_missing_and_unreadable_files(folder):
    path = folder / "img_align_celeba" / "000005.jpg"
    path.write_bytes(b"no picture")
    with pytest.raises(InputError, match=r"000005\.jpg: cannot be read as a picture \(unknown format\)"):
        load()
    path.unlink()
    with pytest.raises(InputError, match=r"000005\.jpg: cannot be read"):
        load()
    (folder / "list_eval_partition.txt").unlink()
    with pytest.raises(InputError, match=r"lacks .*list_eval_partition\.txt"):
        load()


@pytest.mark.parametrize("head", ["many", "119"])
def test_a_list_that_contradicts_its_head_is_refused(folder, head):
    write_labels(folder, head)
    with pytest.raises(InputError, match="cannot be read as CelebA's attributes") as fault:
        load()
    assert "\n" not in str(fault.value)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("000003.jpg", "../../x.jpg", "not the name of a file"),
        ("000003.jpg", "000004.jpg", "is listed twice"),
        ("Young", "Yong", "lacks Young"),
        ("000003.jpg -1", "000003.jpg  3", "labels must be 1 or -1"),
    ],
)
def test_broken_lists(folder, old, new, message):
    path = folder / "list_attr_celeba.txt"
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(InputError, match=message):
        load()


@pytest.mark.parametrize("text", ["", "000001.jpg 7\n" * 2, "000001.jpg 1 2\n", "000001.jpg x\n"])
def test_a_broken_partition(folder, text):
    (folder / "list_eval_partition.txt").write_text(text)
    with pytest.raises(InputError, match=r"list_eval_partition\.txt: ") as fault:
        load()
    assert "\n" not in str(fault.value)


def test_a_part_that_does_not_exist(folder):
    path = folder / "list_eval_partition.txt"
    path.write_text(path.read_text().replace("jpg 2", "jpg 3"))
    with pytest.raises(InputError, match="parts must be 0, 1 or 2"):
        load()


def test_sizes_and_limits(folder):
    with pytest.raises(InputError, match="size must lie between 8 and 178"):
        load(size=500)
    with pytest.raises(InputError, match="limit must be at least 1"):
        load(limit=-1)
    assert len(load(limit=60)) == 60
