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
