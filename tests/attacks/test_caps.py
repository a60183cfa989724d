"""What an attacker leaves out is said; memory for scores is bounded; single precision gives the same answers."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from fedveil.attacks.attack import Attack, Labelled
from fedveil.attacks.boosting import Boosting
from fedveil.attacks.forest import Forest
from fedveil.attacks.logistic import Logistic
from fedveil.attacks.mlp import SmallMLP
from fedveil.attacks.svm import RBFSVM
from fedveil.attacks.updates import UpdateReader

KINDS: list[type[Attack]] = [Boosting, Forest, Logistic, RBFSVM, SmallMLP, UpdateReader]


def shifted(n: int, columns: int = 3, seed: int = 0, rare: float = 0.5) -> Labelled:
    rng = np.random.default_rng(seed)
    codes = (rng.random(n) < rare).astype(np.int64)
    return Labelled(rng.normal(size=(n, columns)) + 1.5 * codes[:, None], codes)


@pytest.mark.parametrize("kind", KINDS)
def test_every_cap_is_said_and_none_where_everything_was_used(
    kind: type[Attack], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kind, "most_vectors", 400)
    attack = kind(seed=0)
    attack.fit(shifted(1_000), shifted(300, seed=1), 2)
    assert attack.notes == ("learned from 400 of 1,000 vectors",)
    attack.fit(shifted(400), shifted(300, seed=1), 2)
    assert attack.notes == ()


def test_a_forest_says_how_few_vectors_each_tree_saw(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Forest, "most_trees", 20)
    attack = Forest(seed=0)
    attack.fit(shifted(22_000), shifted(300, seed=1), 2)
    assert attack.notes == ("each tree learned from 10,000 vectors",)


@pytest.mark.parametrize("kind", KINDS)
def test_the_rare_value_survives_a_cap(kind: type[Attack], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kind, "most_vectors", 300)
    attack, victims = kind(seed=0), shifted(4_000, seed=2)
    attack.fit(shifted(6_000, rare=0.03), shifted(1_500, seed=1, rare=0.03), 2)
    assert (attack.scores(victims.vectors).argmax(axis=1) == victims.codes).mean() > 0.8


@pytest.mark.parametrize("kind", KINDS)
def test_single_and_double_precision_are_read_alike(kind: type[Attack]) -> None:
    learned, held_out, victims = shifted(800), shifted(300, seed=1), shifted(500, seed=2)
    answers = []
    for width in (np.float32, np.float64):
        attack = kind(seed=0)
        attack.fit(*(Labelled(data.vectors.astype(width), data.codes) for data in (learned, held_out)), 2)
        answers.append(attack.scores(victims.vectors.astype(width)))
    assert all(answer.dtype == np.float64 for answer in answers)
    assert (answers[0].argmax(axis=1) == answers[1].argmax(axis=1)).mean() > 0.97


@pytest.mark.parametrize("kind", [Boosting, Forest, Logistic, RBFSVM, SmallMLP])
def test_scores_of_many_vectors_take_bounded_memory(kind: type[Attack]) -> None:
    """A kernel of all pairs, or all vectors in double precision, would take 400 MB and more."""
    attack = kind(seed=0)
    attack.fit(shifted(1_000, 16), shifted(300, 16, seed=1), 2)
    many = np.random.default_rng(3).standard_normal((100_000, 16), dtype=np.float32)
    tracemalloc.start()
    scores = attack.scores(many)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40e6
    np.testing.assert_allclose(scores[40_000:40_100], attack.scores(many[40_000:40_100]), rtol=1e-3, atol=1e-4)


def test_equal_vectors_of_a_rare_value_do_not_break_the_svm() -> None:
    codes = np.r_[np.zeros(2_990, dtype=np.int64), np.ones(10, dtype=np.int64)]
    vectors = np.zeros((3_000, 2))
    vectors[codes == 1] = 1.0
    attack = RBFSVM(seed=0)
    attack.fit(Labelled(vectors, codes), Labelled(vectors, codes), 2)
    assert (attack.scores(vectors).argmax(axis=1) == codes).all()
