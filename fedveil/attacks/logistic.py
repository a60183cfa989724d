"""Logistic regression: the linear attacker."""

from __future__ import annotations

import copy

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, log_loss
from sklearn.utils.class_weight import compute_sample_weight

from fedveil.attacks.attack import Attack, Labelled, evenly
from fedveil.attacks.convergence import may_stop_early
from fedveil.core.arrays import FloatArray, FloatingArray
from fedveil.core.randomness import numpy_generator
from fedveil.core.threads import single_thread

_MOST_DIRECTIONS = 1_000
_ROWS_AT_ONCE = 16_384


class Logistic(Attack):
    """Class-weighted multinomial logistic regression on the vectors and on their whitened form.

    Penalty and form are chosen on validation. Whitening gives every direction of the data unit variance, so that a
    signal in the small difference of two large columns is found, which the penalty would otherwise suppress. The
    strongest penalty is for wide vectors: a shift along a dense direction of thousands of columns is read as well as
    it can be learned only if the weights hardly move from the difference of the classes' means. It learns from at
    most 200,000 vectors, with which a thousand columns' weights are known to a fraction of a point.
    """

    name = "logistic"
    inverse_penalties = (0.001, 0.03, 1.0)
    wide_penalty = 0.0001
    """Tried as well if there are over a quarter as many columns as vectors; elsewhere only luck would choose it."""
    whitened_penalties = (0.01, 10.0)
    most_vectors = 200_000

    def fit(self, auxiliary: Labelled, validation: Labelled, classes: int) -> None:
        """Fit one model per form and penalty; keep the best on validation; ties are broken by log-loss."""
        self.notes = ()
        part = self.capped(auxiliary, self.most_vectors, classes)
        held_out = evenly(validation, self.most_vectors // 4, classes, numpy_generator(self.seed, "validation"))
        with single_thread():
            self.mean_ = part.vectors.mean(axis=0, dtype=np.float64)
            directions = _whitening(part.vectors, self.mean_)
            wide = (self.wide_penalty,) if 4 * part.vectors.shape[1] > len(part) else ()
            penalties = (*wide, *self.inverse_penalties)
            best = self._try_form(part, held_out, classes, None, penalties, (-np.inf, -np.inf))
            if directions is not None:
                self._try_form(part, held_out, classes, directions, self.whitened_penalties, best)

    def scores(self, vectors: FloatingArray) -> FloatArray:
        """Return log-probabilities; a probability that underflows counts as the smallest float, so none is −∞."""
        with single_thread():
            # A product of matrices may round a row differently if its block has another size: one size for all.
            starts = range(0, max(1, len(vectors)), _ROWS_AT_ONCE)
            blocks = (self._in_form(vectors[start : start + _ROWS_AT_ONCE], self.form_) for start in starts)
            posterior = np.concatenate([self.model_.predict_proba(block) for block in blocks]).astype(np.float64)
        return np.asarray(np.log(np.maximum(posterior, np.finfo(np.float64).tiny)), dtype=np.float64)

    def _try_form(
        self,
        train: Labelled,
        held_out: Labelled,
        classes: int,
        form: FloatArray | None,
        penalties: tuple[float, ...],
        best: tuple[float, float],
    ) -> tuple[float, float]:
        """Fit a model per penalty, each starting from the one before; keep those that are better than the best."""
        inputs, asked = (self._in_form(data.vectors, form) for data in (train, held_out))
        even = compute_sample_weight("balanced", held_out.codes)
        model = LogisticRegression(class_weight="balanced", max_iter=300, warm_start=True)
        for penalty in penalties:
            model.set_params(C=penalty)
            with may_stop_early:
                model.fit(inputs, train.codes)
            posterior = model.predict_proba(asked).astype(np.float64)
            posterior /= posterior.sum(axis=1, keepdims=True)
            merit = (
                float(balanced_accuracy_score(held_out.codes, posterior.argmax(axis=1))),
                -float(log_loss(held_out.codes, posterior, labels=np.arange(classes), sample_weight=even)),
            )
            if merit > best:
                best, self.model_, self.form_ = merit, copy.deepcopy(model), form
        return best

    def _in_form(self, vectors: FloatingArray, form: FloatArray | None) -> FloatingArray:
        """Return what the regression sees: double precision, or single for wide vectors, to halve time and memory.

        In single precision the descent stops early where columns are nearly collinear, and up to a quarter of the
        information is lost; wide vectors are penalised so much that it makes no difference.
        """
        if form is None:
            wide = vectors.shape[1] > _MOST_DIRECTIONS
            return vectors.astype(np.float32 if wide else np.float64, copy=False)
        whitened = np.empty((len(vectors), form.shape[1]))
        for start in range(0, len(vectors), _ROWS_AT_ONCE):
            rows = slice(start, start + _ROWS_AT_ONCE)
            whitened[rows] = (vectors[rows] - self.mean_) @ form
        return whitened


def _whitening(vectors: FloatingArray, mean: FloatArray) -> FloatArray | None:
    """Return the map to unit variance in every direction that varies; None if there are too many to estimate."""
    n, columns = vectors.shape
    if columns > _MOST_DIRECTIONS or n <= columns or columns < 2:
        return None
    products = np.zeros((columns, columns))
    for start in range(0, n, _ROWS_AT_ONCE):
        centred = vectors[start : start + _ROWS_AT_ONCE] - mean
        products += centred.T @ centred
    values, directions = np.linalg.eigh(products / n)
    varying = values > 1e-10 * values[-1]
    return np.asarray(directions[:, varying] / np.sqrt(values[varying]), dtype=np.float64)
