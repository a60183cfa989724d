from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedveil.core.errors import InputError
from fedveil.data import (
    IID,
    Attribute,
    AttributeData,
    ByGroup,
    Dirichlet,
    OneEach,
    Partition,
    Partitioner,
    Shards,
    Split,
)


def some_data(n: int = 200, values: int = 3, groups: int | None = 7, seed: int = 0) -> AttributeData:
    rng = np.random.default_rng(seed)
    return AttributeData(
        x=np.zeros((n, 1), dtype=np.float32),
        attributes={"u": Attribute("u", rng.integers(-1, values, n), tuple("abcdefgh"[:values]))},
        split=rng.choice([0, 0, 0, 1, 2], n).astype(np.int8),
        y=Attribute("y", rng.integers(0, 4, n), tuple("wxyz")),
        groups=None if groups is None else rng.integers(0, groups, n),
    )


MAKERS = st.one_of(
    st.builds(IID, st.integers(1, 20)),
    st.builds(Dirichlet, st.integers(1, 20), st.floats(1e-3, 1e4), st.sampled_from(["label", "u"]), st.integers(0, 4)),
    st.builds(ByGroup, st.one_of(st.none(), st.integers(1, 4))),
    st.builds(Shards, st.integers(1, 20), st.integers(1, 4), st.sampled_from(["label", "u", None])),
    st.builds(OneEach),
)


@settings(max_examples=150, deadline=None)
@given(MAKERS, st.integers(150, 400), st.integers(0, 5))
def test_every_training_record_is_dealt_exactly_once(maker: Partitioner, n: int, seed: int):
    data = some_data(n, seed=seed)
    partition = maker.deal(data, seed)
    np.testing.assert_array_equal(np.sort(partition.order), data.rows(Split.TRAIN))
    np.testing.assert_array_equal(np.concatenate(list(partition)), partition.order)
    assert partition.sizes.sum() == len(partition.order)
    assert len(partition) == len(partition.sizes)
    again = maker.deal(data, seed)
    np.testing.assert_array_equal(partition.order, again.order)
    np.testing.assert_array_equal(partition.offsets, again.offsets)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 25), st.floats(1e-3, 100), st.integers(0, 4), st.integers(0, 3))
def test_dirichlet_leaves_no_device_below_the_minimum(devices, alpha, minimum, seed):
    assert Dirichlet(devices, alpha, minimum=minimum).deal(some_data(300), seed).sizes.min() >= minimum


def test_iid_is_even_and_shuffled():
    data = some_data(1000)
    partition = IID(7).deal(data, 1)
    assert np.ptp(partition.sizes) <= 1
    assert (np.diff(partition.device(0)) < 0).any()
    assert not np.array_equal(partition.order, IID(7).deal(data, 2).order)


def share_of_commonest_label(data: AttributeData, partition: Partition) -> float:
    assert data.y is not None
    return float(np.mean([data.y.take(rows).prior for rows in partition if len(rows)]))


def test_alpha_governs_how_alike_devices_are():
    data = some_data(4000)
    uneven, even = (share_of_commonest_label(data, Dirichlet(20, a).deal(data, 0)) for a in (0.05, 1000.0))
    assert uneven > 0.7
    assert even < 0.4


def test_dirichlet_by_attribute_counts_missing_values_as_a_value():
    data = some_data(4000)
    partition = Dirichlet(10, 0.05, by="u").deal(data, 0)
    codes = data.attributes["u"].codes
    shares = [np.bincount(codes[rows] + 1, minlength=4).max() / len(rows) for rows in partition]
    assert np.mean(shares) > 0.6


def test_shards_give_a_device_few_labels_and_equal_sizes():
    data = some_data(4000)
    assert data.y is not None
    partition = Shards(50, per_device=2).deal(data, 0)
    labels = [len(np.unique(data.y.codes[rows])) for rows in partition]
    assert np.mean(labels) <= 2.2  # two shards, of which few straddle two labels
    assert np.ptp(partition.sizes) <= 2
    equal = Shards(100, per_device=1, by=None).deal(data, 0)
    assert np.ptp(equal.sizes) <= 1
    assert share_of_commonest_label(data, equal) < 0.5


def test_groups_stay_whole():
    data = some_data(500, groups=40)
    assert data.groups is not None
    for partition in (ByGroup().deal(data, 0), ByGroup(5).deal(data, 0)):
        owners = [set(data.groups[rows].tolist()) for rows in partition]
        assert sum(map(len, owners)) == len(set().union(*owners))
    assert all(len(np.unique(data.groups[rows])) == 1 for rows in ByGroup().deal(data, 0))


def test_one_each():
    partition = OneEach().deal(some_data(), 0)
    assert (partition.sizes == 1).all()


def test_a_million_devices_are_dealt_quickly_and_flat():
    n = 1_000_000
    data = AttributeData(
        x=np.zeros((n, 1), dtype=np.float32),
        attributes={},
        split=np.zeros(n, dtype=np.int8),
        y=Attribute("y", np.arange(n) % 2, ("a", "b")),
    )
    began = time.perf_counter()
    for maker in (IID(n), OneEach(), Dirichlet(n, 0.5)):
        partition = maker.deal(data, 0)
        assert len(partition) == n
        assert partition.order.nbytes + partition.offsets.nbytes == 8 * (2 * n + 1)
        assert partition.sizes.min() == 1
    assert time.perf_counter() - began < 20


@pytest.mark.parametrize(
    ("maker", "message"),
    [
        (lambda: IID(0), "devices must be at least 1"),
        (lambda: Dirichlet(3, 0.0), "alpha must be a number above 0"),
        (lambda: Dirichlet(3, -1.0), "alpha must be a number above 0"),
        (lambda: Dirichlet(3, float("nan")), "alpha must be a number above 0"),
        (lambda: Dirichlet(3, 1.0, minimum=-1), "minimum must be at least 0"),
        (lambda: Shards(3, per_device=0), "per_device must be at least 1"),
        (lambda: ByGroup(0), "devices must be at least 1"),
    ],
)
def test_faulty_makers_are_refused_where_they_are_made(maker, message):
    with pytest.raises(InputError, match=message):
        maker()


@pytest.mark.parametrize(
    ("maker", "message"),
    [
        (IID(10_000), "too few for 10000 devices"),
        (Dirichlet(100, 1.0, minimum=50), "at least 50 each"),
        (Shards(200), "too few for 200 devices"),
        (ByGroup(), "has no groups"),
        (Dirichlet(2, 1.0, by="v"), "no sensitive attribute 'v'"),
    ],
)
def test_impossible_deals_are_refused(maker, message):
    with pytest.raises(InputError, match=message):
        maker.deal(some_data(groups=None), 0)


def test_more_refusals():
    with pytest.raises(InputError, match="7 groups cannot be dealt to 50 devices"):
        ByGroup(50).deal(some_data(), 0)
    with pytest.raises(InputError, match="no task label to partition by"):
        Shards(2).deal(some_data().without_labels(), 0)
    with pytest.raises(InputError, match="offsets"):
        Partition(np.arange(3), np.array([0, 2]))
    with pytest.raises(IndexError):
        IID(2).deal(some_data(), 0).device(2)
