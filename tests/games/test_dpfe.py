"""DPFE's bound against a naive double sum and against the information that it bounds."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

from fedveil.core.errors import InputError
from fedveil.data import Attribute, AttributeData
from fedveil.data.partition import Partition, Partitioner
from fedveil.federation import Federation, begin
from fedveil.games import DPFE, Adam
from fedveil.games.dpfe import kernel_bound
from fedveil.shields import CertifiedChannel


class Uneven(Partitioner):
    def _deal(self, data, rows, rng):
        return Partition(rows[:24], np.array([0, 1, 9, 14, 24]))


def make_data(seed=0, n=40):
    rng = np.random.default_rng(seed)
    total = n + 20
    return AttributeData(
        rng.normal(size=(total, 4)).astype(np.float32),
        {
            "sex": Attribute("sex", rng.integers(0, 2, total), ("f", "m")),
            "race": Attribute("race", rng.integers(-1, 3, total), ("a", "b", "c")),
        },
        np.array([0] * n + [1] * 10 + [2] * 10, dtype=np.int8),
        y=Attribute("y", rng.integers(0, 3, total), ("0", "1", "2")),
    )


@settings(max_examples=8)
@given(
    attribute=st.sampled_from(["sex", "race"]),
    batch_size=st.sampled_from([1, 3, 500]),
    each=st.booleans(),
    seed=st.integers(0, 100),
)
def test_both_engines_agree(attribute, batch_size, each, seed):
    runs = [
        begin(
            Federation(make_data(seed), Uneven(), engine=engine, dtype="float64", seed=seed,
                       settings={"strength": [0, 1, 2, 3]} if each else {}),
            DPFE(attribute, hidden=(3,), width=3, batch_size=batch_size),
        ).play(3)
        for engine in ("plain", "stacked")
    ]  # fmt: skip
    for name in runs[0].shared:
        torch.testing.assert_close(runs[0].shared[name], runs[1].shared[name], rtol=0, atol=1e-9)


@settings(max_examples=30)
@given(codes=st.lists(st.integers(-1, 2), min_size=1, max_size=8), seed=st.integers(0, 100), sigma=st.floats(0.2, 3))
def test_the_bound_is_the_double_sum_over_ordered_pairs(codes, seed, sigma):
    r = torch.from_numpy(np.random.default_rng(seed).normal(size=(len(codes), 3)))
    labelled = [i for i, code in enumerate(codes) if code >= 0]
    naive = sum(
        float((r[k] - r[m]).square().sum()) / (2 * sigma**2 * len(labelled) ** 2)
        for k in labelled
        for m in labelled
        if codes[k] != codes[m]
    )
    bound = kernel_bound(r, torch.tensor(codes), sigma)
    assert float(bound.mean()) == pytest.approx(naive, abs=1e-9)
    padded = kernel_bound(
        torch.cat([r, r[:1]])[None], torch.tensor([[*codes, 2]]), sigma, torch.tensor([[1.0] * len(codes) + [0.0]])
    )
    assert float(padded[0, :-1].mean()) == pytest.approx(naive, abs=1e-9)


@pytest.mark.parametrize("sigma", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("classes", [2, 4])
def test_the_bound_is_never_below_the_information(sigma, classes):
    """I(r + σz; u) of a Gaussian mixture around each record, by Monte Carlo."""
    rng = np.random.default_rng(0)
    codes = np.arange(12) % classes
    r = rng.normal(size=(12, 2)) + codes[:, None]
    k = rng.integers(0, 12, 40_000)
    z = r[k] + sigma * rng.normal(size=(40_000, 2))
    log_density = -((z[:, None] - r) ** 2).sum(axis=2) / (2 * sigma**2)
    same_code = codes[None] == codes[k][:, None]
    given_u = logsumexp(np.where(same_code, log_density, -np.inf), axis=1) - np.log(same_code.sum(axis=1))
    information = np.mean(given_u - logsumexp(log_density, axis=1) + np.log(12))
    bound = float(kernel_bound(torch.from_numpy(r), torch.from_numpy(codes), sigma).mean())
    assert 0 < information < bound + 1e-3


def test_strength_brings_the_classes_together_and_r_is_normalised():
    data = make_data()
    x = data.x.copy()
    x[:, 0] = 4.0 * data.attributes["sex"].codes
    readable = AttributeData(x, data.attributes, data.split, data.y)
    left = {}
    for strength in (0.0, 5.0):
        game = DPFE("sex", strength, hidden=(8,), width=4, optimiser=Adam(0.01), batch_size=10)
        run = begin(Federation(readable, 2, shield=CertifiedChannel(radius=1.0, sigma=0.3)), game).play(40)
        r = run.model().of_x(game.represent, run.tensors["x"], np.arange(40))
        torch.testing.assert_close(r.norm(dim=1), torch.ones(40))
        left[strength] = float(kernel_bound(r, run.tensors["u:sex"][:40], 0.3).mean())
        assert run.release(2).shape == (10, 4)
    assert left[5.0] < 0.3 * left[0.0]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"strength": -1}, "must not be negative"),
        ({"strength": float("nan")}, "must not be negative"),
        ({"sigma": 0}, "above 0"),
        ({"attribute": "sxe"}, "did you mean 'sex'"),
    ],
)
def test_bad_settings_are_reported(wrong, message):
    with pytest.raises(InputError, match=message):
        begin(Federation(make_data(), 2), DPFE(**{"attribute": "sex", **wrong}))


def test_it_needs_a_task():
    with pytest.raises(InputError, match="no target"):
        begin(Federation(make_data().without_labels(), 2), DPFE("sex"))
