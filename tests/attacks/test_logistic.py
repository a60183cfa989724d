"""Logistic regression: its scores are finite, however sure it is."""

from __future__ import annotations

import numpy as np

from fedveil.attacks.attack import Labelled
from fedveil.attacks.logistic import Logistic


def test_scores_are_finite_where_a_probability_underflows() -> None:
    rng = np.random.default_rng(0)
    codes = np.arange(300) % 3
    vectors = rng.standard_normal((300, 2)) + 8.0 * codes[:, None]
    attack = Logistic()
    attack.fit(Labelled(vectors, codes), Labelled(vectors, codes), 3)
    far = np.array([[1e5, 1e5], [-1e5, -1e5]])
    assert (attack.model_.predict_proba(attack._in_form(far, attack.form_)) == 0).any()
    scores = attack.scores(far)
    assert np.isfinite(scores).all()
    assert scores.argmax(axis=1).tolist() == [2, 0]
