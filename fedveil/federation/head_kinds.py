"""Kinds of task head: each learns a label from released vectors, every record counting alike.

A head is fitted on training people, stopped or tuned on validation people, and gives log-probabilities of the K labels.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from fedveil.core.arrays import FloatArray, IntArray
from fedveil.core.learning import Recipe, fit_network, log_posterior

Posterior = Callable[[FloatArray], FloatArray]


@dataclass(frozen=True, eq=False)
class Lesson:
    """What a head learns from: standardised vectors and codes of training and of validation people."""

    train: tuple[FloatArray, IntArray]
    validation: tuple[FloatArray, IntArray]
    classes: int
    seed: int
    device: str = "auto"


def mlp_head(lesson: Lesson) -> Posterior:
    """One hidden layer of 64 units, the epoch chosen by validation loss."""
    model = fit_network(
        lesson.train, lesson.validation, lesson.classes, Recipe(), even=False, seed=lesson.seed, device=lesson.device
    )
    return lambda vectors: log_posterior(model, vectors)


def boosting_head(lesson: Lesson) -> Posterior:
    """Gradient-boosted trees, stopped when the validation loss no longer improves; ties are broken by the seed."""
    from sklearn.ensemble import HistGradientBoostingClassifier  # a second that runs without such a head need not wait

    (vectors, codes), (held_out, truth) = lesson.train, lesson.validation
    told = np.isin(truth, codes)  # the library refuses labels that it has not seen
    watched = {"X_val": held_out[told], "y_val": truth[told]} if told.any() else {}
    model = HistGradientBoostingClassifier(
        max_iter=200,
        min_samples_leaf=int(np.clip(len(codes) // 40, 2, 20)),
        learning_rate=0.08,
        early_stopping=bool(watched),
        n_iter_no_change=10,
        random_state=lesson.seed % 2**32,
    )
    with threadpool_limits(1, user_api="openmp"):  # the same sums in the same order, and no waiting for each other
        model.fit(vectors, codes, **watched)
    return _spread(model, lesson.classes)


def logistic_head(lesson: Lesson) -> Posterior:
    """Multinomial logistic regression, the penalty chosen by validation accuracy; ties go to the stronger one."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    held_out, truth = lesson.validation
    best, kept = -1.0, None
    for inverse_penalty in (0.01, 0.3, 10.0):
        model = LogisticRegression(C=inverse_penalty, max_iter=500)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # judged by validation like any other
            model.fit(*lesson.train)
        accuracy = float((model.predict(held_out) == truth).mean())
        if accuracy > best:
            best, kept = accuracy, model
    return _spread(kept, lesson.classes)


HEADS: dict[str, Callable[[Lesson], Posterior]] = {
    "mlp": mlp_head,
    "boosting": boosting_head,
    "logistic": logistic_head,
}


def fit_kind(kind: str, lesson: Lesson) -> Posterior:
    """Fit one kind of head; where training people carry one label only, that label is always the answer."""
    seen = np.unique(lesson.train[1])
    if len(seen) == 1:
        sure = np.full(lesson.classes, np.log(1e-9))
        sure[seen[0]] = 0.0
        return lambda vectors: np.tile(sure, (len(vectors), 1))
    return HEADS[kind](lesson)


def _spread(model: Any, classes: int) -> Posterior:
    """Give labels that no training person carried a column, too."""

    def posterior(vectors: FloatArray) -> FloatArray:
        with threadpool_limits(1, user_api="openmp"):
            found = model.predict_proba(vectors)
        probabilities = np.zeros((len(vectors), classes))
        probabilities[:, model.classes_] = found
        return np.asarray(np.log(np.clip(probabilities, 1e-9, 1)), dtype=np.float64)

    return posterior
