"""Logistic regression: the linear attacker."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, log_loss
from sklearn.utils.class_weight import compute_sample_weight

from fedveil.attacks.attack import Attack, Labelled
from fedveil.core.arrays import FloatArray

_MOST_DIRECTIONS = 1_000


class Logistic(Attack):
    """Class-weighted multinomial logistic regression on the vectors and on their whitened form.

    Penalty and form are chosen on validation. Whitening gives every direction of the data unit variance, so that a
    signal in the small difference of two large columns is found, which the penalty would otherwise suppress.
    """

    name = "logistic"
    inverse_penalties = (0.001, 0.03, 1.0)
    whitened_penalties = (0.01, 10.0)

    def fit(self, auxiliary: Labelled, validation: Labelled, classes: int) -> None:
        """Fit one model per form and penalty; keep the best on validation; ties are broken by log-loss."""
        self.mean_ = auxiliary.vectors.mean(axis=0)
        directions = _whitening(auxiliary.vectors - self.mean_)
        forms: list[tuple[FloatArray | None, tuple[float, ...]]] = [(None, self.inverse_penalties)]
        if directions is not None:
            forms.append((directions, self.whitened_penalties))
        best = (-np.inf, -np.inf)
        even = compute_sample_weight("balanced", validation.codes)
        for form, penalties in forms:
            train, held_out = self._in_form(auxiliary.vectors, form), self._in_form(validation.vectors, form)
            for penalty in penalties:
                model = LogisticRegression(C=penalty, class_weight="balanced", max_iter=300)
                with warnings.catch_warnings():
                    # A model that has not converged is judged on validation like any other.
                    warnings.simplefilter("ignore", ConvergenceWarning)
                    model.fit(train, auxiliary.codes)
                posterior = model.predict_proba(held_out)
                merit = (
                    float(balanced_accuracy_score(validation.codes, posterior.argmax(axis=1))),
                    -float(log_loss(validation.codes, posterior, labels=np.arange(classes), sample_weight=even)),
                )
                if merit > best:
                    best, self.model_, self.form_ = merit, model, form

    def scores(self, vectors: FloatArray) -> FloatArray:
        """Return log-probabilities; a probability that underflows counts as the smallest float, so none is −∞."""
        posterior = self.model_.predict_proba(self._in_form(vectors, self.form_))
        return np.asarray(np.log(np.maximum(posterior, np.finfo(np.float64).tiny)), dtype=np.float64)

    def _in_form(self, vectors: FloatArray, form: FloatArray | None) -> FloatArray:
        return vectors if form is None else (vectors - self.mean_) @ form


def _whitening(centred: FloatArray) -> FloatArray | None:
    """Return the map to unit variance in every direction that varies; None if there are too many to estimate."""
    n, columns = centred.shape
    if columns > _MOST_DIRECTIONS or n <= columns or columns < 2:
        return None
    values, vectors = np.linalg.eigh(centred.T @ centred / n)
    varying = values > 1e-10 * values[-1]
    return np.asarray(vectors[:, varying] / np.sqrt(values[varying]), dtype=np.float64)
