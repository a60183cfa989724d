"""Support vector machine with a Gaussian kernel."""

from __future__ import annotations

import numpy as np
from sklearn.svm import SVC

from fedveil.attacks.attack import Attack, Labelled, evenly
from fedveil.core.arrays import FloatArray
from fedveil.core.randomness import numpy_generator


class RBFSVM(Attack):
    """Class-weighted RBF SVM on at most 5,000 vectors, since its cost grows with the square of their number."""

    name = "rbf-svm"
    most_vectors = 5_000

    def fit(self, auxiliary: Labelled, validation: Labelled, classes: int) -> None:
        """Fit on a part of the auxiliary vectors that is drawn evenly over classes."""
        part = evenly(auxiliary, self.most_vectors, classes, numpy_generator(self.seed, "subsample"))
        self.model_ = SVC(class_weight="balanced", decision_function_shape="ovr", cache_size=500)
        self.model_.fit(part.vectors, part.codes)

    def scores(self, vectors: FloatArray) -> FloatArray:
        """Return one margin per class."""
        margin = np.asarray(self.model_.decision_function(vectors), dtype=np.float64)
        return np.stack([-margin, margin], axis=1) / 2 if margin.ndim == 1 else margin
