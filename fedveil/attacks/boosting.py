"""Gradient-boosted trees, usually the strongest attacker on tables."""

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
        # scikit-learn's binning takes half a minute for weighted records. Quantiles of the unweighted values are
        # equally good, and scikit-learn does not bin columns of few values again.
        inner = np.linspace(0, 1, _BINS + 1)[1:-1]
        self.edges_ = [np.unique(np.quantile(column, inner)) for column in auxiliary.vectors.T]
        self.model_ = HistGradientBoostingClassifier(
            max_iter=200,
            # the default of 20 would allow no split of a small set
            min_samples_leaf=int(np.clip(len(auxiliary) // 40, 2, 20)),
            learning_rate=0.08,
            class_weight="balanced",
            early_stopping=True,
            n_iter_no_change=10,
            random_state=self.seed % 2**32,
        )
        # Its threads wait for each other in busy loops: on a busy machine, two are much slower than one.
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
