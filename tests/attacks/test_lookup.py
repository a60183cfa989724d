"""The look-up attacker: the best reading of discrete releases."""

from __future__ import annotations

import numpy as np

from fedveil.attacks.attack import Labelled
from fedveil.attacks.lookup import LookUp


def balanced_accuracy(attack, victims):
    guesses = attack.scores(victims.vectors).argmax(axis=1)
    return np.mean([(guesses[victims.codes == code] == code).mean() for code in np.unique(victims.codes)])


def codes_release(rng, n, tilt, values=64, prior=0.5):
    """Codes whose frequencies depend on u in an arbitrary way; columns are the code's bits, so none says anything."""
    u = (rng.random(n) < prior).astype(np.int64)
    p = np.stack([1 + tilt, 1 - tilt]) / values
    code = np.array([rng.choice(values, p=p[k] / p[k].sum()) for k in u]) if n < 50 else np.empty(n, dtype=np.int64)
    for k in (0, 1):
        code[u == k] = rng.choice(values, size=int((u == k).sum()), p=p[k] / p[k].sum())
    bits = (code[:, None] >> np.arange(6)) & 1
    return Labelled(bits.astype(np.float64), u)


def test_it_reads_what_only_whole_vectors_show():
    """Parity-like tilts: every single bit is independent of u; the optimum is 1/2 + mean |tilt|/2."""
    rng = np.random.default_rng(0)
    parity = np.array([bin(code).count("1") % 2 for code in range(64)])
    tilt = np.where(parity == 1, 0.3, -0.3)
    auxiliary, validation, victims = (codes_release(rng, n, tilt) for n in (8000, 2000, 8000))
    attack = LookUp(seed=0)
    attack.fit(auxiliary, validation, 2)
    assert attack.table_ is not None
    assert abs(balanced_accuracy(attack, victims) - 0.65) < 0.015


def test_values_are_weighed_evenly():
    rng = np.random.default_rng(1)
    tilt = rng.uniform(-0.5, 0.5, 64)
    auxiliary, validation, victims = (codes_release(rng, n, tilt, prior=0.1) for n in (20_000, 4000, 20_000))
    attack = LookUp(seed=0)
    attack.fit(auxiliary, validation, 2)
    p = np.stack([1 + tilt, 1 - tilt]) / 64
    p /= p.sum(axis=1, keepdims=True)
    optimum = 0.5 + 0.25 * np.abs(p[0] - p[1]).sum()
    assert balanced_accuracy(attack, victims) > optimum - 0.02


def test_unseen_vectors_and_continuous_ones_fall_back_on_columns():
    rng = np.random.default_rng(2)
    parts = []
    for n in (3000, 1000, 3000):
        u = np.arange(n) % 3
        parts.append(Labelled(rng.normal(size=(n, 5)) + 0.8 * (np.arange(5) == u[:, None]), u))
    attack = LookUp(seed=0)
    attack.fit(parts[0], parts[1], 3)
    read = balanced_accuracy(attack, parts[2])
    assert 0.47 < read < 0.62
    assert np.isfinite(attack.scores(np.full((4, 5), 1e6))).all()


def test_equal_vectors_are_equal_and_others_differ():
    attack = LookUp(seed=0)
    rng = np.random.default_rng(3)
    grid = np.array(np.meshgrid(*[np.arange(10.0)] * 4)).reshape(4, -1).T
    twice = Labelled(np.vstack([grid, grid]), rng.integers(2, size=20_000))
    attack.fit(twice, twice, 2)
    keys = attack._keys(twice.vectors, attack.binning_.apply(twice.vectors), None)
    assert len(np.unique(keys)) == 10_000
    assert (keys[:10_000] == keys[10_000:]).all()
    zero = np.array([[0.0, 0, 0, 0], [-0.0, 0, 0, 0]])
    assert len(np.unique(attack._keys(zero, attack.binning_.apply(zero), None))) == 1


def test_wide_vectors_use_the_most_telling_columns_and_say_so():
    rng = np.random.default_rng(4)
    u = np.arange(1500) % 2
    r = rng.normal(size=(1500, 600))
    r[:, 7] += 3 * u
    parts = [Labelled(r[i::3], u[i::3]) for i in range(3)]
    attack = LookUp(seed=0)
    attack.fit(parts[0], parts[1], 2)
    assert balanced_accuracy(attack, parts[2]) > 0.6
    assert "512" in attack.notes[0]
