import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedveil.core.errors import InputError
from fedveil.federation import Federation, Krum, MaskedMean, Mean, Median, TrimmedMean, WeightedMean, begin
from fedveil.games import SGD, FedAvg


@st.composite
def updates(draw, least=1):
    devices, size = draw(st.integers(least, 9)), draw(st.integers(1, 6))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    return rng.normal(size=(devices, size)), rng.integers(1, 50, devices).astype(float)


def combined(aggregator, values, weights):
    return aggregator(torch.from_numpy(values), torch.from_numpy(weights)).numpy()


@settings(max_examples=40, deadline=None)
@given(sent=updates())
def test_means_and_median(sent):
    values, weights = sent
    np.testing.assert_allclose(combined(Mean(), values, weights), values.mean(axis=0))
    np.testing.assert_allclose(combined(Median(), values, weights), np.median(values, axis=0))
    np.testing.assert_allclose(combined(WeightedMean(), values, weights), np.average(values, axis=0, weights=weights))


@settings(max_examples=40, deadline=None)
@given(sent=updates(least=5), trim=st.integers(0, 2))
def test_trimmed_mean(sent, trim):
    values, weights = sent
    expected = [np.mean(sorted(column)[trim : len(column) - trim]) for column in values.T]
    np.testing.assert_allclose(combined(TrimmedMean(trim), values, weights), expected)


@settings(max_examples=40, deadline=None)
@given(sent=updates(), seed=st.integers(0, 1000))
def test_masked_mean(sent, seed):
    values, weights = sent
    kept = np.random.default_rng(seed).random(values.shape) < 0.6
    values = values * kept
    expected = [
        np.average(column[mask], weights=weights[mask]) if mask.any() else 0.0
        for column, mask in zip(values.T, kept.T, strict=True)
    ]
    np.testing.assert_allclose(combined(MaskedMean(), values, weights), expected)


@settings(max_examples=40, deadline=None)
@given(sent=updates(least=7), hostile=st.integers(0, 2), keep=st.integers(1, 3))
def test_krum(sent, hostile, keep):
    values, weights = sent
    scores = []
    for i, update in enumerate(values):
        distances = sorted(np.sum((update - other) ** 2) for j, other in enumerate(values) if j != i)
        scores.append(sum(distances[: len(values) - hostile - 2]))
    expected = values[np.argsort(scores, kind="stable")[:keep]].mean(axis=0)
    np.testing.assert_allclose(combined(Krum(hostile, keep), values, weights), expected)


def test_krum_distinguishes_updates_that_are_close_together_and_far_from_zero():
    offsets = np.arange(40.0) ** 2 * 1e-5
    values = (100 + offsets[:, None] * np.ones((1, 30))).astype(np.float32)
    exact = values.astype(np.float64)
    scores = [np.sort(((exact - update) ** 2).sum(axis=1))[1:39].sum() for update in exact]
    np.testing.assert_array_equal(combined(Krum(), values, np.ones(40)), values[int(np.argmin(scores))])


@pytest.mark.parametrize("aggregator", [Krum(hostile=1), Median(), TrimmedMean(1)])
def test_one_hostile_update_does_not_get_through(aggregator):
    rng = np.random.default_rng(1)
    honest = 1 + 0.01 * rng.normal(size=(6, 8))
    hostile = np.full((1, 8), -1e30)
    result = combined(aggregator, np.concatenate([honest, hostile]), np.ones(7))
    assert np.abs(result - 1).max() < 0.05
    assert np.abs(combined(Mean(), np.concatenate([honest, hostile]), np.ones(7))).max() > 1e29


@pytest.mark.parametrize(("aggregator", "needs"), [(Krum(1), 5), (Krum(0, keep=4), 4), (TrimmedMean(2), 5)])
def test_too_few_devices_are_refused_and_the_state_is_kept(make_data, aggregator, needs):
    assert aggregator.needs == needs
    with pytest.raises(InputError, match=f"needs at least {needs} devices in a round, but {needs - 1}"):
        aggregator(torch.zeros(needs - 1, 2), torch.ones(needs - 1))
    run = begin(Federation(make_data(), 20, fraction=0.1, aggregation=aggregator), FedAvg(hidden=(3,)))
    before = run.shared["model"].clone()
    with pytest.raises(InputError, match="2 answered") as fault:
        run.play(2, record=[1])
    assert "\n" not in str(fault.value)
    assert torch.equal(run.shared["model"], before)
    assert not run.history
    assert not run.recorded


@pytest.mark.parametrize("make", [lambda: Krum(-1), lambda: Krum(keep=0), lambda: TrimmedMean(-1)])
def test_impossible_settings_are_refused(make):
    with pytest.raises(InputError):
        make()


@pytest.mark.parametrize("aggregator", [WeightedMean(), Mean(), Median(), TrimmedMean(1), Krum(1), MaskedMean()])
def test_every_aggregator_plays_on_both_engines(make_data, play_both, gap, aggregator):
    game = FedAvg(hidden=(3,), optimiser=SGD(0.1), batch_size=4)
    assert gap(*play_both(make_data(), game, rounds=3, devices=6, aggregation=aggregator)) < 1e-9


def test_the_weighted_mean_in_double_precision_has_double_precision():
    weights = torch.tensor([1.0, 2.0, 4.0])
    result = WeightedMean()(torch.eye(3, dtype=torch.float64), weights)
    np.testing.assert_allclose(result.numpy(), np.array([1, 2, 4]) / 7, rtol=1e-15)
