"""HSIC and MMD against their definitions, summed tuple by tuple, and against closed forms."""

from itertools import permutations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedveil.core.kernels import gaussian_kernel, hsic, mmd


def _k(r: np.ndarray, rows: list[int]) -> np.ndarray:
    """The kernel, pair by pair."""
    apart = np.array([[float(((a - b) ** 2).sum()) for b in r] for a in r])
    pairs = [(i, j) for i in rows for j in rows if i != j]
    mean = np.mean([apart[i, j] for i, j in pairs]) if pairs else 1.0
    return np.mean([np.exp(-apart / (s * mean)) for s in (0.25, 1.0, 4.0)], axis=0)


def _naive_hsic(r: np.ndarray, codes: list[int], rows: list[int]) -> float:
    """Song et al. (2012): the mean over ordered tuples of four different records of k_ij (l_ij + l_qt − 2 l_iq)."""
    k = _k(r, rows)
    terms = [
        k[i, j] * ((codes[i] == codes[j]) + (codes[q] == codes[t]) - 2 * (codes[i] == codes[q]))
        for i, j, q, t in permutations(rows, 4)
    ]
    return float(np.mean(terms)) if terms else 0.0


def _naive_mmd(r: np.ndarray, codes: list[int], rows: list[int]) -> float:
    """Gretton et al. (2012): for each pair of values, means over different pairs within, less twice that between."""
    k = _k(r, rows)
    members = {v: [i for i in rows if codes[i] == v] for v in range(3)}
    within = {v: np.mean([k[i, j] for i, j in permutations(rows, 2)]) for v, rows in members.items() if len(rows) > 1}
    pairs = [
        within[v] + within[w] - 2 * np.mean([k[i, j] for i in members[v] for j in members[w]])
        for v in within
        for w in within
        if v < w
    ]
    return float(np.mean(pairs)) if pairs else 0.0


@settings(max_examples=40)
@given(codes=st.lists(st.integers(-1, 2), min_size=1, max_size=7), seed=st.integers(0, 100), padding=st.integers(0, 2))
def test_both_equal_their_definitions(codes: list[int], seed: int, padding: int) -> None:
    """Records without a value and padding are ignored, both alone and in a stack."""
    r = np.random.default_rng(seed).normal(size=(len(codes), 2))
    rows = [i for i, code in enumerate(codes) if code >= 0]
    padded = torch.from_numpy(np.concatenate([r, 9.0 * np.ones((padding, 2))]))
    u = torch.tensor([*codes, *[1] * padding])
    counted = torch.tensor([*(code >= 0 for code in codes), *[False] * padding])
    stack, values, count = (torch.stack([tensor, tensor.flip(0)]) for tensor in (padded, u, counted))
    for fast, naive in (
        (hsic(padded, u, counted), _naive_hsic(r, codes, rows)),
        (mmd(padded, u, counted, 3), _naive_mmd(r, codes, rows)),
    ):
        assert float(fast) == pytest.approx(naive, abs=1e-9)
    np.testing.assert_allclose(hsic(stack, values, count), [_naive_hsic(r, codes, rows)] * 2, atol=1e-9)
    np.testing.assert_allclose(mmd(stack, values, count, 3), [_naive_mmd(r, codes, rows)] * 2, atol=1e-9)


def test_for_two_values_hsic_is_mmd_weighted() -> None:
    """HSIC = 2 p₀² p₁² MMD in the population, so nearly so for many records."""
    rng = np.random.default_rng(0)
    u = torch.from_numpy((rng.random(1500) < 0.3).astype(np.int64))
    r = torch.from_numpy(rng.normal(size=(1500, 2))) + 0.7 * u[:, None]
    everyone = torch.ones(1500, dtype=torch.bool)
    p = float(u.double().mean())
    expected = 2 * p**2 * (1 - p) ** 2 * float(mmd(r, u, everyone, 2))
    assert expected > 0.005
    assert float(hsic(r, u, everyone)) == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("gap", [0.0, 1.0])
def test_mmd_of_two_gaussians_is_its_integral(gap: float) -> None:
    """One dimension: E exp(−(a − b)²/c) for a − b ~ N(δ, 2) is √(c/(c + 4))·exp(−δ²/(c + 4))."""
    rng = np.random.default_rng(1)
    u = torch.arange(1500) % 2
    r = torch.from_numpy(rng.normal(size=(1500, 1))) + gap * u[:, None]
    mean = float((r - r.T).square().sum() / (1500 * 1499))
    expected = np.mean([
        2 * np.sqrt(c / (c + 4)) * (1 - np.exp(-(gap**2) / (c + 4))) for c in (0.25 * mean, mean, 4 * mean)
    ])  # fmt: skip
    assert float(mmd(r, u, torch.ones(1500, dtype=torch.bool), 2)) == pytest.approx(expected, abs=0.02)


def test_estimates_are_unbiased_where_nothing_depends() -> None:
    rng = np.random.default_rng(2)
    r = torch.from_numpy(rng.normal(size=(4000, 8, 2)))
    u = torch.from_numpy(rng.integers(0, 2, (4000, 8)))
    everyone = torch.ones(4000, 8, dtype=torch.bool)
    for measured in (hsic(r, u, everyone), mmd(r, u, everyone, 2)):
        assert abs(float(measured.mean())) < 4 * float(measured.std()) / 4000**0.5
        assert float(measured.min()) < 0


def test_a_single_value_or_identical_records_give_zero_with_finite_gradients() -> None:
    everyone = torch.ones(6, dtype=torch.bool)
    for r, u in ((torch.randn(6, 2, dtype=torch.float64), torch.zeros(6)), (torch.ones(6, 2), torch.arange(6) % 2)):
        r.requires_grad_()
        for measured in (hsic(r, u.long(), everyone), mmd(r, u.long(), everyone, 2)):
            assert float(measured.detach()) == pytest.approx(0, abs=1e-6)
            (gradient,) = torch.autograd.grad(measured, r)
            assert bool(torch.isfinite(gradient).all())


def test_the_kernel_does_not_depend_on_the_scale() -> None:
    r = torch.from_numpy(np.random.default_rng(3).normal(size=(9, 4)))
    everyone = torch.ones(9, dtype=torch.bool)
    torch.testing.assert_close(gaussian_kernel(r, everyone), gaussian_kernel(1e3 * r, everyone))
