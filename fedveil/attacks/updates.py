"""Attackers on updates: there are few updates, each with many numbers."""

from __future__ import annotations

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.utils.class_weight import compute_sample_weight

from fedveil.attacks.attack import Attack, Labelled
from fedveil.attacks.convergence import may_stop_early
from fedveil.attacks.mlp import SmallMLP
from fedveil.core.arrays import FloatArray, FloatingArray
from fedveil.core.learning import Recipe
from fedveil.core.threads import single_thread
from fedveil.view import EVERY_OBSERVER, Capability

Axes = tuple[bool, FloatArray, FloatArray]
"""Whether rows are scaled to norm 1, the mean of the rows, and the directions with their scale."""


class UpdateReader(Attack):
    """A class-weighted logistic regression on the principal directions of the updates that the attacker knows.

    With a few hundred senders and ten thousand numbers each, the directions in which updates differ span fewer
    dimensions than there are senders. It tries updates as they are and scaled to norm 1 (how far a device moves depends
    on how many records it has, not necessarily on whose they are), several numbers of directions and several penalties,
    and keeps the model with the lowest log-loss on validation: with so few devices, a choice by accuracy would be
    mostly luck. It must know who sent each update; otherwise there is no sender to infer. Guarantee: none; it is one
    attacker.
    """

    name = "updates"
    needs = EVERY_OBSERVER | {Capability.SENDERS}
    most_vectors = 2_000
    directions = (4, 16, 64)
    inverse_penalties = (0.003, 0.1, 3.0)

    def fit(self, auxiliary: Labelled, validation: Labelled, classes: int) -> None:
        """Fit one model per form, number of directions and penalty; keep the best on validation."""
        self.notes = ()
        part = self.capped(auxiliary, self.most_vectors, classes)
        with single_thread():
            self._choose(part, validation, classes)

    def _choose(self, part: Labelled, validation: Labelled, classes: int) -> None:
        even = compute_sample_weight("balanced", validation.codes)
        best = np.inf
        for scaled in (False, True):
            axes = principal_axes(part.vectors, scaled, max(self.directions))
            train, held_out = along(axes, part.vectors), along(axes, validation.vectors)
            for count in self.directions:
                for penalty in self.inverse_penalties:
                    model = LogisticRegression(C=penalty, class_weight="balanced", max_iter=300)
                    with may_stop_early:
                        model.fit(train[:, :count], part.codes)
                    posterior = model.predict_proba(held_out[:, :count])
                    loss = log_loss(validation.codes, posterior, labels=np.arange(classes), sample_weight=even)
                    if loss < best:
                        best, self.model_, self.axes_, self.count_ = float(loss), model, axes, count

    def scores(self, vectors: FloatingArray) -> FloatArray:
        """Return log-probabilities."""
        with single_thread():
            coordinates = along(self.axes_, vectors)[:, : self.count_]
            return np.asarray(self.model_.predict_log_proba(coordinates), dtype=np.float64)


class StructureKnown(SmallMLP):
    """RecUP-FL's Stru-NN (Cui et al. 2023, §5.4): three fully connected layers, as in the defender's zoo.

    The paper trains it by plain SGD at a rate of 0.01 for 80 epochs, unweighted. Here it is trained by Adam on the
    class-weighted cross-entropy and stopped on validation: it learns more, and does not look harmless on an uneven
    attribute.
    """

    name = "stru-nn"
    recipe = Recipe(hidden=(512, 256), learning_rate=5e-4, fused=True, most_epochs=30, patience=4)


class StructureUnknown(SmallMLP):
    """RecUP-FL's Unkwn-NN: hidden layers of 1024, 1024, 512 and 128 units, which no member of the zoo has."""

    name = "unkwn-nn"
    recipe = Recipe(hidden=(1024, 1024, 512, 128), learning_rate=3e-4, fused=True, most_epochs=30, patience=4)


def principal_axes(vectors: FloatingArray, scaled: bool, most: int) -> Axes:
    """Return the directions of largest variance, in descending order, from the products of rows, since rows are few."""
    rows = _rows(vectors, scaled)
    mean = rows.mean(axis=0)
    centred = rows - mean
    values, left = np.linalg.eigh(centred @ centred.T)
    order = np.argsort(values)[::-1][:most]
    varying = order[values[order] > 1e-12 * max(float(values[order[0]]), 1e-300)]
    axes = centred.T @ left[:, varying] / np.sqrt(values[varying])
    # All directions share one unit, the deviation along the first: small ones stay small, as the penalty requires.
    unit = np.sqrt(float(values[order[0]]) / len(rows)) if len(varying) else 1.0
    return scaled, mean, axes / unit if len(varying) else np.zeros((rows.shape[1], 1))


def along(axes: Axes, vectors: FloatingArray) -> FloatArray:
    """Return vectors in the axes' coordinates."""
    scaled, mean, directions = axes
    return np.asarray((_rows(vectors, scaled) - mean) @ directions, dtype=np.float64)


def _rows(vectors: FloatingArray, scaled: bool) -> FloatArray:
    rows = np.asarray(vectors, dtype=np.float64)  # products of rows with few of them need the precision
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300) if scaled else rows
