from __future__ import annotations

import math
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad

from fedveil.certificates import differential_privacy as dp
from fedveil.certificates import (
    dp_sgd_epsilon,
    dp_sgd_epsilon_at_order,
    dp_sgd_noise_multiplier,
    gaussian_epsilon,
    gaussian_noise_multiplier,
    laplace_epsilon,
    laplace_scale,
    replace_one_from_add_remove,
)
from fedveil.certificates.differential_privacy import gaussian_delta
from fedveil.core.errors import InputError

SETTINGS = [(1.0, 0.01, 1000, 1e-5), (2.0, 0.1, 50, 1e-5), (4.0, 1.0, 10, 1e-5)]


@given(st.floats(0.0, 4.0), st.floats(0.4, 5.0))
def test_the_closed_form_is_the_hockey_stick_divergence(epsilon: float, noise: float) -> None:
    def excess(z: float) -> float:
        first, second = (math.exp(-0.5 * (z - shift) ** 2) for shift in (1.0 / noise, 0.0))
        return max(0.0, first - math.exp(epsilon) * second) / math.sqrt(2.0 * math.pi)

    cut = epsilon * noise + 0.5 / noise
    naive = quad(excess, cut, cut + 12.0, limit=200)[0]
    assert gaussian_delta(epsilon, noise) == pytest.approx(naive, abs=1e-8)


@given(st.floats(0.2, 50.0), st.sampled_from([1e-2, 1e-5, 1e-8]), st.integers(1, 100))
def test_the_exact_epsilon_inverts_the_exact_delta(noise: float, delta: float, releases: int) -> None:
    epsilon = gaussian_epsilon(noise, delta, releases)
    if epsilon == 0.0:
        assert gaussian_delta(0.0, noise, releases) <= delta
    else:
        assert gaussian_delta(epsilon, noise, releases) == pytest.approx(delta, rel=1e-4)


@pytest.mark.parametrize("setting", SETTINGS)
def test_accountants_agree(setting: tuple[float, float, int, float]) -> None:
    pld = dp_sgd_epsilon(*setting)
    prv = dp_sgd_epsilon(*setting, accountant="prv")
    rdp, other_rdp = (dp_sgd_epsilon(*setting, accountant=name) for name in ("rdp", "dp-accounting rdp"))
    assert pld == pytest.approx(prv, abs=0.02)  # Opacus adds its stated error of 0.01
    assert rdp == pytest.approx(other_rdp, rel=1e-3)
    assert pld <= rdp <= 1.3 * pld


def test_accountants_agree_with_the_closed_form_without_sampling() -> None:
    exact = gaussian_epsilon(4.0, 1e-5, 10)
    assert dp_sgd_epsilon(4.0, 1.0, 10, 1e-5) == pytest.approx(exact, abs=1e-3)
    assert exact - 1e-6 <= dp_sgd_epsilon(4.0, 1.0, 10, 1e-5, accountant="prv") <= exact + 0.02
    best = min(10 * a / (2 * 16.0) + math.log(1e5) / (a - 1) for a in np.arange(1.1, 60.0, 0.1))
    assert exact < dp_sgd_epsilon(4.0, 1.0, 10, 1e-5, accountant="rdp") <= best


def test_one_order_is_the_first_conversion_and_looser() -> None:
    closed = 10 * 100.0 / (2 * 16.0) + math.log(1e5) / 99.0
    assert dp_sgd_epsilon_at_order(4.0, 1.0, 10, 1e-5) == pytest.approx(closed, rel=1e-9)
    for setting in SETTINGS:
        assert dp_sgd_epsilon_at_order(*setting) > dp_sgd_epsilon(*setting, accountant="rdp")
        assert dp_sgd_epsilon_at_order(*setting, order=8.0) > dp_sgd_epsilon(*setting, accountant="rdp")


def test_replacing_a_record_costs_more_than_adding_and_less_than_twice() -> None:
    noise, rate, steps, delta = 1.0, 0.01, 300, 1e-5
    added = dp_sgd_epsilon(noise, rate, steps, delta)
    twice, more = replace_one_from_add_remove(added, delta)
    assert added < dp_sgd_epsilon(noise, rate, steps, more, neighbours="replace") <= twice
    # Without sampling a replacement moves the mean twice as far.
    assert dp_sgd_epsilon(4.0, 1.0, 10, 1e-5, neighbours="replace") == pytest.approx(
        gaussian_epsilon(2.0, 1e-5, 10), abs=1e-3
    )


@pytest.mark.parametrize("target", [0.5, 3.0, 12.0])
def test_calibrated_noise_is_enough_and_not_too_much(target: float) -> None:
    noise = gaussian_noise_multiplier(target, 1e-5, 7)
    assert gaussian_epsilon(noise, 1e-5, 7) <= target < gaussian_epsilon(0.998 * noise, 1e-5, 7)
    noise = dp_sgd_noise_multiplier(target, 0.02, 200, 1e-5, accountant="rdp")
    assert dp_sgd_epsilon(noise, 0.02, 200, 1e-5, accountant="rdp") <= target
    assert dp_sgd_epsilon(0.998 * noise, 0.02, 200, 1e-5, accountant="rdp") > target


@pytest.mark.slow
@pytest.mark.parametrize("accountant", ["pld", "prv"])
def test_calibration_by_the_slower_accountants(accountant: dp.Accountant) -> None:
    noise = dp_sgd_noise_multiplier(2.0, 0.01, 1000, 1e-5, accountant=accountant)
    assert dp_sgd_epsilon(noise, 0.01, 1000, 1e-5, accountant=accountant) <= 2.0
    assert dp_sgd_epsilon(0.998 * noise, 0.01, 1000, 1e-5, accountant=accountant) > 2.0


@given(st.integers(1, 50), st.floats(0.1, 5.0), st.floats(0.1, 5.0), st.integers(0, 2**32 - 1))
def test_laplace_epsilon_bounds_the_densities_and_is_attained(d: int, clip: float, scale: float, seed: int) -> None:
    rng = np.random.default_rng(seed)

    def worst_log_ratio(a: np.ndarray, b: np.ndarray) -> float:
        # ln p_a(a)/p_b(a) is the largest over outputs, at the output a itself.
        return float(np.abs(a - b).sum() / scale)

    pair = rng.standard_normal((2, d))
    in_l1 = clip * pair / np.abs(pair).sum(axis=1, keepdims=True)
    in_l2 = clip * pair / np.linalg.norm(pair, axis=1, keepdims=True)
    assert worst_log_ratio(*in_l1) <= laplace_epsilon(scale, clip, clipped_in="L1", dimensions=d) + 1e-9
    assert worst_log_ratio(*in_l2) <= laplace_epsilon(scale, clip, clipped_in="L2", dimensions=d) + 1e-9
    corner = np.full(d, clip / math.sqrt(d))
    assert worst_log_ratio(corner, -corner) == pytest.approx(
        laplace_epsilon(scale, clip, clipped_in="L2", dimensions=d)
    )
    needed = laplace_scale(0.7, clip, clipped_in="L2", dimensions=d)
    assert laplace_epsilon(needed, clip, clipped_in="L2", dimensions=d) == pytest.approx(0.7)


@pytest.mark.parametrize(("accountant", "module"), [("rdp", "opacus.accountants"), ("pld", "dp_accounting")])
def test_a_missing_extra_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, accountant: dp.Accountant, module: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(InputError, match=r"pip install 'fedveil\[dp\]'"):
        dp_sgd_epsilon(1.0, 0.01, 10, 1e-5, accountant=accountant)


@pytest.mark.parametrize(
    "setting", [(0.0, 0.1, 1, 1e-5), (1.0, 0.0, 1, 1e-5), (1.0, 1.1, 1, 1e-5), (1.0, 0.1, 0, 1e-5), (1.0, 0.1, 1, 0.0)]
)
def test_nonsense_is_refused(setting: tuple[float, float, int, float]) -> None:
    with pytest.raises(InputError, match="differential privacy"):
        dp_sgd_epsilon(*setting)


def test_unknown_choices_are_refused() -> None:
    with pytest.raises(InputError, match="not known"):
        dp_sgd_epsilon(1.0, 0.1, 1, 1e-5, accountant="moments")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="use 'pld'"):
        dp_sgd_epsilon(1.0, 0.1, 1, 1e-5, accountant="rdp", neighbours="replace")
    with pytest.raises(InputError, match="clipped_in"):
        laplace_epsilon(1.0, 1.0, clipped_in="L3")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="order"):
        dp_sgd_epsilon_at_order(1.0, 0.1, 1, 1e-5, order=1.0)
    with pytest.raises(InputError, match="target"):
        gaussian_noise_multiplier(0.0, 1e-5)
    with pytest.raises(InputError, match="target"):
        laplace_scale(-1.0, 1.0, clipped_in="L1")
