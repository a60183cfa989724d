"""Gradient-boosted trees: usually the strongest attacker on tables."""

from __future__ import annotations

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.utils.class_weight import compute_sample_weight
from threadpoolctl import threadpool_limits

from fedveil.attacks.attack import Attack, Labelled, log_probabilities
from fedveil.core.arrays import FloatArray

_BINS = 255


class Boosting(Attack):
    """Class-weighted histogram boosting that stops when validation no longer improves."""

    name = "boosting"

    def fit(self, auxiliary: Labelled, validation: Labelled, classes: int) -> None:
        """Boost until the validation loss stalls."""
        # The library's own binning takes half a minute once records are weighted; quantiles of the
        # unweighted values serve as well, and columns that hold few values are left alone by it.
        inner = np.linspace(0, 1, _BINS + 1)[1:-1]
        self.edges_ = [np.unique(np.quantile(column, inner)) for column in auxiliary.vectors.T]
        self.model_ = HistGradientBoostingClassifier(
            max_iter=200,
            min_samples_leaf=int(
                np.clip(len(auxiliary) // 40, 2, 20)
            ),  # the library's 20 would refuse small sets a split
            learning_rate=0.08,
            class_weight="balanced",
            early_stopping=True,
            n_iter_no_change=10,
            random_state=self.seed % 2**32,
        )
        # Its threads wait for each other actively: beside a busy neighbour two are far slower than one.
        with threadpool_limits(1, user_api="openmp"):
            self.model_.fit(
                self._binned(auxiliary.vectors),
                auxiliary.codes,
                X_val=self._binned(validation.vectors),
                y_val=validation.codes,
                sample_weight_val=compute_sample_weight("balanced", validation.codes),
            )

    def scores(self, vectors: FloatArray) -> FloatArray:
        """Return log-probabilities."""
        with threadpool_limits(1, user_api="openmp"):
            return log_probabilities(self.model_.predict_proba(self._binned(vectors)))

    def _binned(self, vectors: FloatArray) -> FloatArray:
        columns = [np.searchsorted(edges, column) for edges, column in zip(self.edges_, vectors.T, strict=True)]
        return np.stack(columns, axis=1).astype(np.float64)
