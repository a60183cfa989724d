import numpy as np
import pytest
import torch
from scipy import stats

from fedveil.core.randomness import child_seed
from fedveil.federation.counted_random import uniform
from fedveil.federation.replaced_layers import Situation
from fedveil.federation.stacked.layers import dropout

SEEDS = torch.tensor([child_seed(0, "test", i) for i in range(300)])


def test_numbers_are_uniform_within_and_across_devices():
    drawn = uniform(SEEDS, 3, 2, (400,)).numpy()
    assert drawn.min() >= 0
    assert drawn.max() < 1
    assert stats.kstest(drawn.ravel(), "uniform").pvalue > 1e-3
    for axis in (0, 1):  # each device's first number, and each device's all numbers
        worst = min(stats.kstest(np.take(drawn, i, axis=axis), "uniform").pvalue for i in range(100))
        assert worst > 1e-5


def test_neighbouring_seeds_steps_calls_and_positions_are_independent():
    base = uniform(SEEDS, 5, 1, (400,)).numpy()
    others = {
        "step": uniform(SEEDS, 6, 1, (400,)).numpy(),
        "call": uniform(SEEDS, 5, 2, (400,)).numpy(),
        "swapped": uniform(SEEDS, 1, 5, (400,)).numpy(),
        "device": np.roll(base, 1, axis=0),
        "position": np.roll(base, 1, axis=1),
        "seed": uniform(SEEDS + 1, 5, 1, (400,)).numpy(),
        "many calls": uniform(SEEDS, 4, 65, (400,)).numpy(),
    }
    for name, other in others.items():
        assert abs(np.corrcoef(base.ravel(), other.ravel())[0, 1]) < 4.5 / np.sqrt(base.size), name
        assert not (base == other).any(), name


def test_no_draw_comes_twice():
    draws = [uniform(SEEDS[:3], step, call, (50,)) for step in range(4) for call in range(1, 80)]
    everything = torch.stack(draws).flatten()
    assert len(everything.unique()) == len(everything)


@pytest.mark.parametrize("probability", [0.1, 0.5, 0.9])
def test_dropout_keeps_the_expectation(probability):
    now = Situation(True, None, SEEDS, step=7)
    layer = torch.nn.Dropout(probability)
    x = torch.ones(len(SEEDS), 20, 30, dtype=torch.float64)
    y = dropout(layer, {}, x, now)
    spread = np.sqrt(probability / (1 - probability) / x.numel())
    assert abs(float(y.mean()) - 1) < 5 * spread
    assert y.unique().tolist() == pytest.approx([0, 1 / (1 - probability)])
    assert not torch.equal(y, dropout(layer, {}, x, now))  # the next draw is another
    assert torch.equal(dropout(layer, {}, x, Situation(False)), x)


def test_a_device_draws_the_same_alone_as_in_a_stack():
    together = uniform(SEEDS, 9, 4, (5, 6))
    for i in (0, 17, 299):
        assert torch.equal(together[i : i + 1], uniform(SEEDS[i : i + 1], 9, 4, (5, 6)))
    assert torch.equal(together[:, :3], uniform(SEEDS, 9, 4, (3, 6)))  # nor does the batch's width matter
