import tracemalloc

import numpy as np
import pytest

from fedveil.core.standardise import Standardiser


def test_a_large_offset_hides_nothing():
    codes = np.arange(100) % 2
    seen = Standardiser.fit((1e10 + codes)[:, None].astype(float)).apply((1e10 + codes)[:, None].astype(float))
    assert seen[codes == 1].min() > seen[codes == 0].max()


def test_one_wild_record_does_not_flatten_the_others():
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(1000, 3))
    vectors[5] = 1e6
    seen = Standardiser.fit(vectors).apply(vectors)
    assert seen[np.arange(1000) != 5].std() == pytest.approx(1, abs=0.1)
    assert seen[5].max() < 30


def test_order_is_kept_far_out_and_victims_do_not_set_the_scale():
    rng = np.random.default_rng(1)
    auxiliary = rng.normal(size=(500, 1))
    scale = Standardiser.fit(auxiliary)
    far = np.array([[5.0], [50.0], [500.0], [5e8]])
    assert (np.diff(scale.apply(far)[:, 0]) > 0).all()
    np.testing.assert_array_equal(scale.apply(auxiliary[:1]), Standardiser.fit(auxiliary).apply(auxiliary[:1]))


def test_constant_columns_go_and_sparse_ones_stay():
    vectors = np.zeros((1000, 3))
    vectors[:, 0] = 7
    vectors[:3, 1] = 1  # three in a thousand: constant in its bulk, and still a signal
    vectors[:, 2] = np.arange(1000)
    assert Standardiser.fit(vectors).varies.tolist() == [False, True, True]
    assert np.isfinite(Standardiser.fit(np.full((10, 2), 3.0)).apply(np.full((4, 2), 5.0))).all()


def test_differences_in_the_last_digits_are_kept():
    """A code of 1e-9 beside values of 1: in single precision only values near the median would keep it."""
    u = np.arange(2000) % 2
    vectors = (np.arange(2000) // 2 % 10 / 10 + 1e-9 * u)[:, None]
    assert len(np.unique(Standardiser.fit(vectors).apply(vectors))) == 20


def test_an_offset_is_removed_and_equal_and_distinct_values_stay_so():
    rng = np.random.default_rng(2)
    codes = rng.integers(0, 1000, 5000)
    for offset in (0.0, 1e10, -3e12):
        vectors = (offset + codes)[:, None].astype(float)
        before = vectors.copy()
        seen = Standardiser.fit(vectors).apply(vectors)
        np.testing.assert_array_equal(vectors, before)  # what is fitted on stays as it was
        assert seen.dtype == np.float64
        assert len(np.unique(seen)) == len(np.unique(codes))
        assert (np.diff(seen[np.argsort(codes), 0]) >= 0).all()


def test_blocks_change_nothing(monkeypatch):
    rng = np.random.default_rng(3)
    vectors = rng.normal(size=(700, 9)) * np.logspace(-8, 8, 9) + np.linspace(-5, 1e6, 9)
    whole = Standardiser.fit(vectors)
    monkeypatch.setattr("fedveil.core.standardise._CELLS_AT_ONCE", 1500)
    parts = Standardiser.fit(vectors)
    np.testing.assert_array_equal(whole.centre, parts.centre)
    np.testing.assert_array_equal(whole.deviation, parts.deviation)
    np.testing.assert_array_equal(whole.apply(vectors), parts.apply(vectors))


def test_many_vectors_are_standardised_in_little_memory():
    vectors = np.random.default_rng(4).standard_normal((250_000, 16), dtype=np.float32)
    tracemalloc.start()
    seen = Standardiser.fit(vectors).apply(vectors)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < seen.nbytes + 150e6  # the answer, and a few blocks of 32 MB
    assert seen.std() == pytest.approx(1, abs=0.05)


def test_what_varies_only_outside_the_sample_of_quantiles_is_kept(monkeypatch):
    monkeypatch.setattr("fedveil.core.standardise._ROWS_FOR_QUANTILES", 10)
    vectors = np.zeros((100, 2))
    vectors[1::2, 1] = 1.0  # every tenth row, which the quantiles are taken from, is 0
    scale = Standardiser.fit(vectors)
    assert scale.varies.tolist() == [False, True]
    assert np.ptp(scale.apply(vectors)) > 1
