"""The certificate's helper: counts where there are any, a network where there are none."""

import numpy as np

from fedveil.rate.helper import fit_helper


def drawn(n, seed):
    rng = np.random.default_rng(seed)
    rows = np.stack([rng.integers(-2, 3, n), rng.integers(-2, 3, n)], axis=1).astype(float)
    law = np.random.default_rng(9).dirichlet(np.full(4, 0.3), 25)  # nothing smooth: a small network learns it slowly
    cells = ((rows[:, 0] + 2) * 5 + rows[:, 1] + 2).astype(int)
    return (rows, np.array([rng.choice(4, p=law[cell]) for cell in cells])), law[cells]


def test_it_comes_near_the_true_law_and_rows_are_laws():
    (train, _), (validation, _), (test, truth) = (drawn(n, s) for n, s in ((300, 0), (3000, 1), (3000, 2)))
    said = fit_helper(train, validation, 4)(test[0])
    assert np.allclose(np.exp(said).sum(axis=1), 1.0)
    pick = (np.arange(3000), test[1])
    assert -said[pick].mean() < -np.log(truth[pick]).mean() + 0.03


def test_cells_never_met_and_minus_zero_are_answered():
    (train, _), (validation, _) = (drawn(n, s) for n, s in ((300, 0), (3000, 1)))
    helper = fit_helper(train, validation, 4)
    assert np.isfinite(helper(np.array([[70.0, -3.0]]))).all()
    assert np.array_equal(helper(np.array([[0.0, 1.0]])), helper(np.array([[-0.0, 1.0]])))
