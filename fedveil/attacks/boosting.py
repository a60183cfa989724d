"""Gradient-boosted trees, usually the strongest attacker on tables."""

from __future__ import annotations

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.utils.class_weight import compute_sample_weight

from fedveil.attacks.attack import Attack, Labelled, evenly, log_probabilities
from fedveil.attacks.binning import binned, screening_note
from fedveil.core.arrays import FloatArray, FloatingArray
from fedveil.core.randomness import numpy_generator
from fedveil.core.threads import single_thread

_BINS = 255
_ROWS_AT_ONCE = 16_384


class Boosting(Attack):
    """Class-weighted histogram boosting that stops when validation no longer improves.

    It learns from at most 100,000 vectors and from the 512 columns that depend most on the attribute: its 200 small
    trees gain nothing from more vectors, and rarely split by more columns.
    """

    name = "boosting"
    most_vectors = 100_000
    most_columns = 512

    def fit(self, auxiliary: Labelled, validation: Labelled, classes: int) -> None:
        """Boost until the validation loss stalls."""
        self.notes = ()
        columns = auxiliary.vectors.shape[1]
        part = self.capped(auxiliary, self.most_vectors, classes)
        held_out = evenly(validation, self.most_vectors // 4, classes, numpy_generator(self.seed, "validation"))
        # scikit-learn's binning takes half a minute for weighted records. Quantiles of the unweighted values are
        # equally good, and scikit-learn does not bin columns of few values again.
        self.binning_, codes = binned(part, classes, _BINS, self.most_columns)
        if codes.shape[1] < columns:
            self.notes = (*self.notes, screening_note(codes.shape[1], columns))
        self.model_ = HistGradientBoostingClassifier(
            max_iter=200,
            # the default of 20 would allow no split of a small set
            min_samples_leaf=int(np.clip(len(part) // 40, 2, 20)),
            learning_rate=0.08,
            class_weight="balanced",
            early_stopping=True,
            n_iter_no_change=10,
            random_state=self.seed % 2**32,
        )
        # Its threads wait for each other in busy loops: on a busy machine, two are much slower than one.
        with single_thread():
            self.model_.fit(
                codes,
                part.codes,
                X_val=self.binning_.apply(held_out.vectors),
                y_val=held_out.codes,
                sample_weight_val=compute_sample_weight("balanced", held_out.codes),
            )

    def scores(self, vectors: FloatingArray) -> FloatArray:
        """Return log-probabilities, computed in blocks of bounded size."""
        starts = range(0, max(1, len(vectors)), _ROWS_AT_ONCE)
        with single_thread():
            blocks = (self.binning_.apply(vectors[start : start + _ROWS_AT_ONCE]) for start in starts)
            return np.concatenate([log_probabilities(self.model_.predict_proba(block)) for block in blocks])
