import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedveil.core.errors import InputError
from fedveil.data import Attribute, AttributeData
from fedveil.view import Capability, View


@settings(max_examples=30, deadline=None)
@given(n=st.integers(40, 200), people=st.integers(12, 40), seed=st.integers(0, 1000))
def test_no_person_is_both_learned_from_and_attacked(n, people, seed):
    rng = np.random.default_rng(seed)
    groups = rng.integers(0, people, n)
    view = View.of_vectors(np.arange(n), {"u": Attribute.from_column("u", groups % 2)}, groups=groups, seed=seed)
    pools = (view.auxiliary, view.validation, view.victims)
    seen = [set(pool.groups.tolist()) for pool in pools]
    assert all(not (a & b) for a, b in itertools.combinations(seen, 2))
    rows = np.concatenate([pool.vectors[:, 0] for pool in pools])
    assert sorted(rows.tolist()) == list(range(n))


def test_records_keep_their_labels_groups_and_given_columns():
    codes = np.arange(60) % 3
    view = View.of_vectors(codes * 10.0, {"u": Attribute.from_column("u", codes)}, given=codes[:, None] + 0.5)
    for pool in (view.auxiliary, view.validation, view.victims):
        np.testing.assert_array_equal(pool.vectors[:, 0], pool.attributes["u"].codes * 10.0)
        np.testing.assert_array_equal(pool.given[:, 0], pool.attributes["u"].codes + 0.5)


def test_splits_that_cut_through_groups_cost_the_attacker_those_records():
    data = AttributeData(
        x=np.arange(12, dtype=np.float32)[:, None],
        attributes={"u": Attribute.from_column("u", np.arange(12) % 2)},
        split=np.array([0] * 6 + [1] * 3 + [2] * 3, dtype=np.int8),
        groups=np.array([0, 1, 2, 3, 4, 5, 5, 6, 7, 7, 8, 0]),
    )
    view = View.of_data(data)
    assert view.victims.groups.tolist() == [7, 8, 0]
    assert view.validation.groups.tolist() == [5, 6]
    assert view.auxiliary.groups.tolist() == [1, 2, 3, 4]


def test_an_attack_that_needs_more_than_the_view_grants_is_refused():
    view = View.of_vectors(np.ones(40), {"u": Attribute.from_column("u", np.arange(40) % 2)})
    view.require(frozenset({Capability.VECTORS}), "anybody")
    with pytest.raises(InputError, match=r"curious needs when it was sent and who sent what"):
        view.require(frozenset({Capability.SENDERS, Capability.ROUNDS}), "curious")


@pytest.mark.parametrize(
    ("vectors", "options", "message"),
    [
        (np.full((4, 2), np.nan), {}, "row 0"),
        (np.array([1, 2, np.inf, 4.0]), {}, "row 2"),
        (np.ones(5), {}, "4 rows, but there are 5"),
        (np.ones(4), {"groups": np.zeros(3, int)}, "groups"),
        (np.ones(4), {"given": np.full((4, 1), np.nan)}, "given"),
    ],
)
def test_vectors_that_do_not_fit_are_refused(vectors, options, message):
    with pytest.raises(InputError, match=message):
        View.of_vectors(vectors, {"u": Attribute.from_column("u", [0, 1, 0, 1])}, **options)


def test_reprs_take_one_line():
    codes = np.arange(50) % 2
    view = View.of_vectors(np.zeros((50, 3)), {"u": Attribute.from_column("u", codes)})
    assert repr(view) == "View(auxiliary=24, validation=10, victims=16, dimensions=3, attributes=['u'])"
    assert repr(view.victims) == "Pool(vectors=16 × 3, attributes=['u'])"


def test_single_precision_stays_and_a_complete_pool_is_not_copied():
    vectors = np.random.default_rng(0).standard_normal((200, 3), dtype=np.float32)
    view = View.of_vectors(vectors, {"u": Attribute.from_column("u", np.arange(200) % 2)})
    assert view.victims.vectors.dtype == np.float32
    assert view.about("u").victims.vectors is view.victims.vectors
    integers = View.of_vectors(np.arange(400).reshape(200, 2), {"u": Attribute.from_column("u", np.arange(200) % 2)})
    assert integers.victims.vectors.dtype == np.float64
