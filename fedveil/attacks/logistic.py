"""Logistic regression: the linear attacker."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score

from fedveil.attacks.attack import Attack, FloatArray, Labelled


class Logistic(Attack):
    """Class-weighted multinomial logistic regression, its ridge chosen on validation."""

    name = "logistic"
    inverse_penalties = (0.001, 0.03, 1.0)

    def fit(self, auxiliary: Labelled, validation: Labelled, classes: int) -> None:
        """Fit one model per penalty, from strong to weak, and keep the best on validation."""
        best = -np.inf
        for penalty in self.inverse_penalties:
            model = LogisticRegression(C=penalty, class_weight="balanced", max_iter=300)
            with warnings.catch_warnings():
                # An attacker stopped short of the optimum is judged by validation like any other.
                warnings.simplefilter("ignore", ConvergenceWarning)
                model.fit(auxiliary.vectors, auxiliary.codes)
            merit = balanced_accuracy_score(validation.codes, model.predict(validation.vectors))
            if merit > best:
                best, self.model_ = merit, model

    def scores(self, vectors: FloatArray) -> FloatArray:
        """Return log-probabilities."""
        return np.asarray(self.model_.predict_log_proba(vectors), dtype=np.float64)
