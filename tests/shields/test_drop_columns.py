"""Columns are ranked on training people by what they say about u, and the most telling are set to zero."""

import numpy as np
import pandas as pd
import pytest
import torch

from fedveil.core import plugins
from fedveil.core.errors import InputError
from fedveil.core.randomness import torch_generator
from fedveil.data import Attribute, AttributeData, Split, load
from fedveil.data.encoding import encode_columns, encode_table
from fedveil.federation import Federation
from fedveil.federation.records import prepare_shield
from fedveil.games import Raw
from fedveil.shields import Chain, Context, DropColumns, Kind, Message, ShieldError
from fedveil.shields.drop_columns import information_bits, table_columns


def entropy(p):
    p = np.asarray(p)
    return float(-(p[p > 0] * np.log2(p[p > 0])).sum())


def people(n=6000, seed=0, described=True):
    """A table whose columns say a lot (job), a little (age), and nothing (noise, town) about u."""
    rng = np.random.default_rng(seed)
    u = rng.integers(0, 2, n)
    frame = pd.DataFrame(
        {
            "noise": rng.normal(size=n),
            "age": rng.normal(size=n) + 0.7 * u,
            "job": np.where(rng.random(n) < 0.9, u, 1 - u).astype(str),
            "town": rng.choice(list("abcdefgh"), n),
        }
    )
    frame.loc[rng.random(n) < 0.1, "age"] = np.nan
    split = np.where(np.arange(n) < 0.6 * n, 0, np.where(np.arange(n) < 0.8 * n, 1, 2)).astype(np.int8)
    encoded = encode_table(frame, train=split == 0)
    return AttributeData(
        encoded.x,
        {"u": Attribute("u", u, ("a", "b"))},
        split,
        y=Attribute("y", rng.integers(0, 2, n), ("0", "1")),
        feature_names=encoded.names,
        columns=encoded.columns if described else (),
        name="people",
    )


def test_information_of_a_category_is_the_closed_form():
    """A binary symmetric channel with error .1, exact counts: 1 − h(.1) bits, less nothing at this size."""
    u = np.repeat([0, 0, 1, 1], [9000, 1000, 1000, 9000])
    x = np.repeat([0, 1, 0, 1], [9000, 1000, 1000, 9000]).astype(np.float64)
    secret = Attribute("u", u, ("a", "b"))
    correction = (1 + 1 - 3) / (2 * 20_000) / np.log(2)
    assert information_bits(x[:, None], secret) == pytest.approx(1 - entropy([0.1, 0.9]) + correction, abs=1e-12)
    one_hot = np.stack([x, 1 - x], axis=1)
    assert information_bits(one_hot, secret) == pytest.approx(information_bits(x[:, None], secret), abs=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_information_agrees_with_a_naive_count(seed):
    rng = np.random.default_rng(seed)
    x, u = rng.integers(0, 6, 500), rng.integers(-1, 3, 500)
    counts = np.zeros((6, 3))
    for a, b in zip(x, u, strict=True):
        counts[a, b] += b >= 0
    n = counts.sum()
    naive = sum(
        counts[a, b] / n * np.log2(counts[a, b] * n / counts[a].sum() / counts[:, b].sum())
        for a in range(6)
        for b in range(3)
        if counts[a, b]
    )
    naive += (5 + 2 - ((counts > 0).sum() - 1)) / (2 * n * np.log(2))
    features = np.eye(6)[x]
    assert information_bits(features, Attribute("u", u, ("a", "b", "c"))) == pytest.approx(naive, abs=1e-12)


def test_the_correction_keeps_columns_of_many_values_from_looking_informative():
    rng = np.random.default_rng(0)
    estimates = []
    for _ in range(50):
        secret = Attribute("u", rng.integers(0, 2, 1000), ("a", "b"))
        estimates.append(information_bits(np.eye(40)[rng.integers(0, 40, 1000)], secret))
    assert abs(np.mean(estimates)) < 0.005  # uncorrected: 39 / 2n nats = .028 bits


def test_numbers_are_cut_at_their_quantiles():
    """Equal Gaussians a deviation apart: 20 bins lose little of I = .1 bits or so; a monotone map changes nothing."""
    rng = np.random.default_rng(1)
    u = rng.integers(0, 2, 40_000)
    x = rng.normal(size=40_000) + u
    grid = np.linspace(-8, 9, 20_001)
    each = [np.exp(-((grid - mean) ** 2) / 2) / np.sqrt(2 * np.pi) for mean in (0, 1)]
    mixed = sum(each) / 2
    exact = np.trapezoid(sum(p / 2 * np.log2(p / mixed) for p in each), grid)
    secret = Attribute("u", u, ("a", "b"))
    assert information_bits(x[:, None], secret) == pytest.approx(exact, abs=0.012)
    assert information_bits(np.exp(x)[:, None], secret) == information_bits(x[:, None], secret)


def test_rare_marks_are_not_lost_between_quantiles():
    secret = Attribute("u", (np.arange(1000) < 10).astype(np.int64), ("a", "b"))
    many = np.where(np.arange(1000) < 10, 5.0, np.arange(1000) % 400 / 1000)
    assert information_bits((np.arange(1000) < 10)[:, None].astype(float), secret) > 0.07
    assert information_bits(many[:, None], secret) > 0.02


def test_the_most_telling_columns_go_and_the_rest_stays_bit_by_bit():
    data = people()
    shield = prepare_shield(DropColumns(2, "u"), data, 0)
    assert [name for name, _ in shield.ranking_][:2] == ["job", "age"] == list(shield.dropped_)
    bits = dict(shield.ranking_)
    assert bits["job"] == pytest.approx(1 - entropy([0.1, 0.9]), abs=0.03)
    assert max(bits["noise"], bits["town"]) < 0.005
    context = Context(0, 0, torch_generator(0))
    sent = shield.apply(Message(Kind.INPUT, torch.from_numpy(data.x)), context)[0].values.numpy()
    gone = np.array([column in ("job", "age") for column in data.columns])
    assert gone.sum() == 4  # age, age missing, job=0, job=1
    assert (sent[:, gone] == 0).all()
    assert not np.signbit(sent[:, gone]).any()  # not even −0, which would reveal a sign
    np.testing.assert_array_equal(sent[:, ~gone], data.x[:, ~gone])


def test_the_ranking_sees_training_people_alone():
    data = people()
    turned = data.x.copy()
    held_out = data.split != Split.TRAIN
    turned[held_out] = np.random.default_rng(9).permutation(turned[held_out])
    other = AttributeData(turned, data.attributes, data.split, columns=data.columns, feature_names=data.feature_names)
    assert (
        prepare_shield(DropColumns(1, "u"), data, 0).ranking_ == prepare_shield(DropColumns(1, "u"), other, 1).ranking_
    )


def test_nothing_and_everything_can_be_dropped():
    data = people(300)
    for columns, left in ((0, data.x), (4, np.zeros_like(data.x))):
        run = Federation(data, devices=3, shield=DropColumns(columns, "u")).play(Raw())
        np.testing.assert_array_equal(run.release(Split.TEST), left[data.rows(Split.TEST)])


def test_ties_keep_the_table_s_order():
    x = np.tile(np.array([[0.0], [1.0]], dtype=np.float32), (50, 3))
    data = AttributeData(
        x,
        {"u": Attribute("u", np.arange(100) % 2, ("a", "b"))},
        np.zeros(100, dtype=np.int8),
        feature_names=("z", "a", "m"),
    )
    assert prepare_shield(DropColumns(1, "u"), data, 0).dropped_ == ("z",)


@pytest.mark.parametrize("columns", [-1, 1.5, float("nan"), float("inf"), "two", None, True])
def test_invalid_numbers_of_columns_are_refused(columns):
    with pytest.raises(InputError, match="whole number") as fault:
        DropColumns(columns, "u")
    assert "\n" not in str(fault.value)


def test_whole_numbers_of_any_type_are_taken():
    assert DropColumns(2.0, "u").columns == DropColumns(np.int64(2), "u").columns == 2
    assert repr(DropColumns(2.0, "u")) == repr(prepare_shield(DropColumns(2, "u"), people(300), 0))


def test_faults_are_reported_in_one_line():
    data = people(300)
    image = AttributeData(
        np.zeros((6, 1, 2, 2), dtype=np.float32),
        {"u": Attribute("u", np.arange(6) % 2, ("a", "b"))},
        np.zeros(6, dtype=np.int8),
    )
    unlabelled = AttributeData(
        data.x, {"u": Attribute("u", np.full(300, -1), ("a", "b"))}, data.split, columns=data.columns
    )
    for shield, wrong, message in (
        (DropColumns(5, "u"), data, "cannot leave out 5 of people's 4 columns"),
        (DropColumns(1, "U"), data, "did you mean 'u'"),
        (DropColumns(1, "u"), image, "not a table with named columns"),
        (DropColumns(1, "u"), unlabelled, "no training record"),
    ):
        with pytest.raises(InputError, match=message) as fault:
            Federation(wrong, devices=1, shield=shield).play(Raw())
        assert "\n" not in str(fault.value)


def test_a_shield_that_was_not_prepared_lets_nothing_through():
    with pytest.raises(ShieldError, match="nothing is sent: the columns are not ranked"):
        DropColumns(1, "u").apply(Message(Kind.INPUT, torch.ones(2, 3)), Context(0, 0, torch_generator(0)))


def test_features_know_their_column_whatever_their_names():
    frame = pd.DataFrame(
        {
            "a": ["b=c", "d", None],
            "a=b": ["x", "y", "x"],
            "a=b=c": [1.0, 2.0, None],
            "a=b=c missing": [0.0, 1.0, 0.0],
            "": ["p", "q", "p"],
            "flag": [True, False, True],
        }
    )
    encoded = encode_table(frame)
    assert encoded.names[:5] == ("a=b=c", "a=d", "a=(missing)", "a=b=x", "a=b=y")
    assert encoded.columns == ("a",) * 3 + ("a=b",) * 2 + ("a=b=c",) * 2 + ("a=b=c missing",) + ("",) * 2 + ("flag",)
    matrix, names = encode_columns(frame)
    np.testing.assert_array_equal(matrix, encoded.x)
    assert tuple(names) == encoded.names


def test_columns_that_the_source_does_not_describe_are_derived_from_names():
    described, silent = people(600), people(600, described=False)
    assert table_columns(described) == described.columns == table_columns(silent)
    assert (
        prepare_shield(DropColumns(2, "u"), described, 0).ranking_
        == prepare_shield(DropColumns(2, "u"), silent, 0).ranking_
    )


def test_a_users_tables_carry_their_columns(tmp_path):
    rows = "\n".join(f"{i % 2},{i % 5},{'xyz'[i % 3]},{'' if i % 7 == 0 else i}" for i in range(60))
    (tmp_path / "t.csv").write_text("u,y,a=b,n\n" + rows)
    data = load("table", target="y", sensitive="u", path=tmp_path / "t.csv")
    assert data.columns == ("a=b",) * 3 + ("n",) * 2
    assert data.take(np.arange(5)).columns == data.columns


def test_it_joins_a_chain_and_is_found_by_name():
    data = people(600)
    assert plugins.load("fedveil.shields", "drop-columns") is DropColumns
    chain = Chain([DropColumns(1, "u"), Chain([DropColumns(2, "u")])])
    assert chain.acts_on == {Kind.INPUT}
    run = Federation(data, devices=3, shield=chain).play(Raw())
    alone = Federation(data, devices=3, shield=DropColumns(2, "u")).play(Raw())
    np.testing.assert_array_equal(run.release(Split.TEST), alone.release(Split.TEST))


def test_on_adult_the_columns_that_reveal_sex_go_first(published):
    published("adult")
    data = load("adult", target="income", sensitive="sex")
    ranking = [name for name, _ in prepare_shield(DropColumns(3, "sex"), data, 0).ranking_]
    assert ranking[:6] == ["relationship", "marital-status", "occupation", "hours-per-week", "workclass", "age"]
    assert len(ranking) == 13
    bits = dict(prepare_shield(DropColumns(3, "sex"), data, 0).ranking_)
    assert bits["relationship"] > 2 * bits["marital-status"] > 0.2
