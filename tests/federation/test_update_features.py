"""Views of updates' features: their senders, their labels, and centring by round."""

import numpy as np
import pytest

from fedveil.core.errors import InputError
from fedveil.data import Dirichlet, Split, load
from fedveil.federation import Federation
from fedveil.federation.recording import device_labels, feature_view, unusual_value
from fedveil.games import FedAvg


@pytest.fixture(scope="module")
def run():
    data = load("synthetic", target="y", sensitive="u", n=1500, bits=0.5)
    federation = Federation(data, devices=Dirichlet(40, 0.3, "u"), fraction=0.6)
    return federation.play(FedAvg(hidden=(4,)), rounds=4, record=[1, 2, 4])


def pools(view):
    return view.auxiliary, view.validation, view.victims


def test_devices_are_never_split_and_rounds_are_centred(run):
    view = feature_view(run, "whole")
    senders = [set(pool.groups.tolist()) for pool in pools(view)]
    assert not senders[0] & senders[1]
    assert not (senders[0] | senders[1]) & senders[2]
    together = np.concatenate([pool.vectors for pool in pools(view)])
    when = np.concatenate([pool.rounds for pool in pools(view)])
    assert set(when) == {1, 2, 4}
    for number in (1, 2, 4):
        assert np.abs(together[when == number].mean(axis=0)).max() < 1e-9


def test_one_vector_per_device_is_the_mean_over_its_rounds(run):
    view, by_device = feature_view(run, "last"), feature_view(run, "last", by_device=True)
    for pool, means in zip(pools(view), pools(by_device), strict=True):
        assert means.groups.tolist() == sorted(set(pool.groups.tolist()))
        for row, sender in enumerate(means.groups):
            mine = pool.groups == sender
            np.testing.assert_allclose(means.vectors[row], pool.vectors[mine].mean(axis=0), atol=1e-12)
            assert means.attributes["u"].codes[row] == pool.attributes["u"].codes[mine][0]


def test_the_majority_is_the_sender_s_own(run):
    view = feature_view(run)
    u, partition = run.federation.data.attribute("u"), run.federation.partition
    for sender, code in zip(view.victims.groups, view.victims.attributes["u"].codes, strict=True):
        assert code == u.take(partition.device(int(sender))).counts.argmax()


def test_more_than_usual_differs_where_the_majority_does_not():
    data = load("synthetic", target="y", sensitive="u", n=3000, bits=0.5)
    run = Federation(data, devices=30).play(FedAvg(hidden=(4,)), rounds=1, record=[1])
    view = feature_view(run, question="more than usual")
    usual = data.attribute("u").take(data.rows(Split.TRAIN)).counts
    usual = usual / usual.sum()
    codes = []
    for pool in pools(view):
        for sender, code in zip(pool.groups, pool.attributes["u"].codes, strict=True):
            counts = data.attribute("u").take(run.federation.partition.device(int(sender))).counts
            codes.append(code)
            assert code == int((counts / counts.sum() - usual).argmax())
    assert 5 < sum(codes) < 25


def test_a_value_that_nobody_has_is_never_unusual():
    assert unusual_value(np.array([5, 0, 5]), np.array([600, 0, 400])) == 2
    assert unusual_value(np.array([7, 0, 3]), np.array([600, 0, 400])) == 0


def test_shadows_and_senders_without_a_value_have_labels_of_their_own():
    data = load("synthetic", target="y", sensitive="u", n=900, bits=0.5)
    run = Federation(data, devices=8).play(FedAvg(hidden=(4,)), rounds=1, record=[1], shadows=6)
    labels = device_labels(run, "u", np.arange(8, 14), lambda counts, population: int(counts.argmax()))
    assert labels.codes.tolist() == [int(data.attribute("u").take(rows).counts.argmax()) for rows in run.shadow_rows]
    run.federation.data.attributes["u"].codes[run.federation.partition.device(3)] = -1
    assert device_labels(run, "u", np.array([3]), lambda counts, population: 0).codes.tolist() == [-1]


def test_bad_input_is_refused_in_one_line(run):
    with pytest.raises(InputError, match="question must be"):
        feature_view(run, question="minority")
    with pytest.raises(InputError, match="no features"):
        feature_view(run, "all")
    data = load("synthetic", target="y", sensitive="u", n=300)
    silent = Federation(data, devices=5).play(FedAvg(hidden=(4,)), rounds=1)
    with pytest.raises(InputError, match="no updates were recorded"):
        feature_view(silent)
