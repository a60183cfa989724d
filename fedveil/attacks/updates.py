"""An attacker on updates: few senders, many numbers."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.utils.class_weight import compute_sample_weight

from fedveil.attacks.attack import Attack, Labelled, evenly
from fedveil.core.arrays import FloatArray
from fedveil.core.randomness import numpy_generator
from fedveil.view import EVERY_OBSERVER, Capability

Axes = tuple[bool, FloatArray, FloatArray]
"""Whether rows are scaled to norm 1, the mean, and the directions with their scale."""


class UpdateReader(Attack):
    """Principal directions of the updates the attacker knows, then a class-weighted logistic regression on them.

    With some hundred senders and ten thousand numbers each, the directions in which updates differ span fewer
    dimensions than there are senders. It tries updates as they are and scaled to norm 1 (how far a device moves says
    how many records it has, which need not say whose), several numbers of directions and penalties, and keeps what has
    the lowest log-loss on validation: with so few devices an accuracy would be mostly luck.
    It needs to know who sent what, or there is no sender to ask about. Guarantee: none; it is one attacker.
    """

    name = "updates"
    needs = EVERY_OBSERVER | {Capability.SENDERS}
    most_vectors = 2_000
    directions = (4, 16, 64)
    inverse_penalties = (0.003, 0.1, 3.0)

    def fit(self, auxiliary: Labelled, validation: Labelled, classes: int) -> None:
        """Fit one model per form, number of directions and penalty; keep the best on validation."""
        part = evenly(auxiliary, self.most_vectors, classes, numpy_generator(self.seed, "subsample"))
        even = compute_sample_weight("balanced", validation.codes)
        best = np.inf
        for scaled in (False, True):
            axes = principal_axes(part.vectors, scaled, max(self.directions))
            learned, judged = along(axes, part.vectors), along(axes, validation.vectors)
            for count in self.directions:
                for penalty in self.inverse_penalties:
                    model = LogisticRegression(C=penalty, class_weight="balanced", max_iter=300)
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore", ConvergenceWarning)  # judged by validation like any other
                        model.fit(learned[:, :count], part.codes)
                    posterior = model.predict_proba(judged[:, :count])
                    loss = log_loss(validation.codes, posterior, labels=np.arange(classes), sample_weight=even)
                    if loss < best:
                        best, self.model_, self.axes_, self.count_ = float(loss), model, axes, count

    def scores(self, vectors: FloatArray) -> FloatArray:
        """Return log-probabilities."""
        seen = along(self.axes_, vectors)[:, : self.count_]
        return np.asarray(self.model_.predict_log_proba(seen), dtype=np.float64)


def principal_axes(vectors: FloatArray, scaled: bool, most: int) -> Axes:
    """Return the directions of most variance, the largest first, found in the smaller of the two spaces."""
    rows = _rows(vectors, scaled)
    mean = rows.mean(axis=0)
    centred = rows - mean
    values, left = np.linalg.eigh(centred @ centred.T)
    order = np.argsort(values)[::-1][:most]
    real = order[values[order] > 1e-12 * max(float(values[order[0]]), 1e-300)]
    axes = centred.T @ left[:, real] / np.sqrt(values[real])
    # One unit for all directions, the largest one's deviation: smaller ones stay small, as the penalty expects.
    unit = np.sqrt(float(values[order[0]]) / len(rows)) if len(real) else 1.0
    return scaled, mean, axes / unit if len(real) else np.zeros((rows.shape[1], 1))


def along(axes: Axes, vectors: FloatArray) -> FloatArray:
    """Return vectors in the axes' coordinates."""
    scaled, mean, directions = axes
    return np.asarray((_rows(vectors, scaled) - mean) @ directions, dtype=np.float64)


def _rows(vectors: FloatArray, scaled: bool) -> FloatArray:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-300) if scaled else vectors
