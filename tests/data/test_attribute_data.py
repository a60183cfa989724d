from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedveil.core.errors import InputError
from fedveil.data import MISSING, Attribute, AttributeData, Split, intersect, random_split
from fedveil.data.source import checked
from fedveil.data.splits import joint_strata

SHARES = st.floats(0.0, 0.45)


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 300), st.integers(0, 9), SHARES, SHARES, st.integers(1, 40))
def test_splits_keep_groups_whole_and_are_a_function_of_the_seed(n, seed, validation, test, groups):
    rng = np.random.default_rng(seed)
    group, strata = rng.integers(0, groups, n), rng.integers(-1, 3, n)
    options = {"seed": seed, "validation": validation, "test": test, "strata": strata, "groups": group}
    split = random_split(n, **options)
    assert split.shape == (n,)
    assert set(split.tolist()) <= {0, 1, 2}
    for member in np.unique(group):
        assert len(np.unique(split[group == member])) == 1
    np.testing.assert_array_equal(split, random_split(n, **options))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=300), st.integers(0, 9))
def test_each_stratum_of_at_least_three_is_in_all_splits_with_its_share(values, seed):
    strata = np.array(values)
    split = random_split(len(strata), seed=seed, validation=0.1, test=0.2, strata=strata)
    for stratum in np.unique(strata):
        counts = np.bincount(split[strata == stratum], minlength=3)
        if counts.sum() >= 3:
            assert (counts > 0).all()
        assert abs(counts[Split.TEST] - 0.2 * counts.sum()) <= 1
        assert abs(counts[Split.VALIDATION] - 0.1 * counts.sum()) <= 1


def test_a_value_in_the_minority_of_its_groups_may_miss_a_split():
    """What the docstring does not promise: strata that vary within groups."""
    groups = np.repeat(np.arange(30), 10)
    strata = (np.arange(300) % 10 == 0) & (groups < 6)  # one record in each of six groups
    missed = 0
    for seed in range(20):
        split = random_split(300, seed=seed, strata=strata.astype(np.int64), groups=groups)
        missed += len(np.unique(split[strata])) < 3
        assert all(len(np.unique(split[groups == group])) == 1 for group in range(30))
    assert missed > 0


def test_shares_must_leave_something_to_train_on():
    with pytest.raises(InputError, match="leave training records"):
        random_split(10, seed=0, validation=0.5, test=0.5)


def test_a_rare_value_spread_over_combinations_still_reaches_every_split():
    rng = np.random.default_rng(0)
    u = np.r_[np.zeros(1000, dtype=int), np.ones(5, dtype=int)]  # five records of the rare value …
    y = np.r_[rng.integers(0, 5, 1000), np.arange(5)]  # … each with another label
    labels = [Attribute("u", u, ("common", "rare")), Attribute("y", y, tuple("abcde"))]
    split = random_split(1005, seed=0, strata=joint_strata(labels))
    assert set(split[u == 1].tolist()) == {0, 1, 2}


def data_with(
    u: list[int], y: list[int] | None, split: list[int], values: tuple[str, ...] = ("a", "b")
) -> AttributeData:
    return AttributeData(
        x=np.zeros((len(u), 1), dtype=np.float32),
        attributes={"u": Attribute("u", np.array(u), values)},
        split=np.array(split, dtype=np.int8),
        y=None if y is None else Attribute("y", np.array(y), ("0", "1")),
        name="some",
    )


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (data_with([0, 0, 0, 0], None, [0, 0, 2, 2]), "attribute 'u' has only the value 'a'"),
        (data_with([MISSING] * 4, None, [0, 0, 2, 2]), "attribute 'u' has no value at all"),
        (data_with([0, 1, 0, 0], None, [0, 0, 2, 2]), "'u' has no record of value 'b' in the test split"),
        (data_with([0, 1, 0, 1, 1], None, [0, 0, 2, 2, 1]), "value 'a' in the validation split"),
        (data_with([0, 1, 0, 1], [0, 0, 0, 1], [0, 0, 2, 2]), "target 'y' has no record of value '1' in the train"),
        (data_with([0, 1, 0, 1], [1, 0, 1, 0], [0, 0, 2, 2]), "'u' and target 'y' determine each other"),
        (data_with([0, 1], None, [0, 0]), "no test records"),
        (data_with([0, 1], None, [2, 2]), "no train records"),
    ],
)
def test_data_that_cannot_serve_is_refused(data, message):
    with pytest.raises(InputError, match=message):
        checked(data)


def test_sound_data_passes():
    data = data_with([0, 1, 0, 1, MISSING], [0, 1, 1, 0, 1], [0, 0, 2, 2, 0])
    assert checked(data) is data


def test_attribute_data_refuses_what_does_not_fit():
    u = Attribute("u", np.array([0, 1]), ("a", "b"))
    x, split = np.zeros((2, 1), dtype=np.float32), np.zeros(2, dtype=np.int8)
    with pytest.raises(InputError, match="split has 3 records, x has 2"):
        AttributeData(x=x, attributes={"u": u}, split=np.zeros(3, dtype=np.int8))
    with pytest.raises(InputError, match="both target and sensitive"):
        AttributeData(x=x, attributes={"u": u}, split=split, y=u)
    with pytest.raises(InputError, match="NaN or infinite"):
        AttributeData(x=x + np.float32(np.nan), attributes={"u": u}, split=split)
    with pytest.raises(InputError, match="did you mean 'u'"):
        AttributeData(x=x, attributes={"u": u}, split=split).attribute("U")


def test_columns_with_gaps_keep_whole_numbers_and_text():
    assert Attribute.from_column("a", [1.0, 2.0, None]).values == ("1", "2")
    text = Attribute.from_column("a", ["x", None, " ", "y "])
    assert text.values == ("x", "y")
    assert text.codes.tolist() == [0, MISSING, MISSING, 1]
    assert Attribute.from_column("a", [True, False, None]).values == ("False", "True")
    with pytest.raises(InputError, match="infinite"):
        Attribute.from_column("a", [1.0, np.inf])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(-1e6, 1e6), min_size=25, max_size=200), st.integers(2, 6))
def test_bins_follow_the_order_of_the_numbers(numbers, bins):
    attribute = Attribute.from_column("a", np.array(numbers), bins=bins)
    if len(set(numbers)) > 20:
        assert len(attribute.values) <= bins
        assert (attribute.counts > 0).all()
        assert (np.diff(attribute.codes[np.argsort(numbers, kind="stable")]) >= 0).all()


def test_intersect_and_merge():
    sex = Attribute.from_column("sex", ["f", "m", "f", None])
    race = Attribute.from_column("race", ["x", "y", "z", "x"])
    assert intersect([sex, race]).codes.tolist() == [0, 2, 1, MISSING]
    coarse = race.merge("coarse", {"x": "1", "y": "1"})
    assert coarse.codes.tolist() == [0, 0, MISSING, 0]


def _with_task(codes=(0, 1, 0, 1, 1, 0), name="hours"):
    n = len(codes)
    return AttributeData(
        np.zeros((6, 2), dtype=np.float32),
        {"sex": Attribute("sex", np.array([0, 1, 0, 1, 0, 1]), ("f", "m"))},
        np.array([0, 0, 1, 1, 2, 2], dtype=np.int8),
        y=Attribute("y", np.array([1, 0, 0, 1, 0, 1]), ("a", "b")),
        tasks={name: Attribute(name, np.array(codes), ("short", "long"))} if n else {},
    )


def test_further_tasks_are_found_as_labels_and_stay_with_their_records():
    data = _with_task()
    assert data.label("hours").codes.tolist() == [0, 1, 0, 1, 1, 0]
    assert list(data.labels) == ["y", "hours", "sex"]
    assert data.take(np.array([1, 5])).label("hours").codes.tolist() == [1, 0]
    assert "hours" in data.without_labels().tasks
    with pytest.raises(InputError, match="no sensitive attribute 'hours'"):
        data.attribute("hours")
    with pytest.raises(InputError, match="did you mean 'hours'"):
        data.label("hour")


@pytest.mark.parametrize("name", ["sex", "y"])
def test_a_further_task_is_neither_target_nor_attribute(name):
    with pytest.raises(InputError, match=f"{name!r} is a further task"):
        _with_task(name=name)


def test_a_further_task_must_fit_and_vary():
    with pytest.raises(InputError, match="task 'hours' has 3 records"):
        _with_task(codes=(0, 1, 0))
    with pytest.raises(InputError, match="task 'hours' has only the value 'long'"):
        checked(_with_task(codes=(1,) * 6))


def test_games_and_attackers_never_see_further_tasks():
    from fedveil.federation import Federation, begin
    from fedveil.games import Autoencoder, DataShape

    data = _with_task()
    run = begin(Federation(data, 2), Autoencoder(hidden=(2,), width=2)).play(1)
    assert set(run.tensors) == {"x", "y", "u:sex"}
    assert DataShape.of(data).attributes == {"sex": 2}
    assert set(run.view("representations").auxiliary.attributes) == {"sex"}
