"""Random forest (120 trees, like RecUP-FL's attacker)."""

from __future__ import annotations

from sklearn.ensemble import RandomForestClassifier

from fedveil.attacks.attack import Attack, Labelled, log_probabilities
from fedveil.core.arrays import FloatArray


class Forest(Attack):
    """Class-weighted random forest; leaves of at least three records keep its votes from being all or nothing."""

    name = "forest"

    def fit(self, auxiliary: Labelled, validation: Labelled, classes: int) -> None:
        """Grow the trees."""
        self.model_ = RandomForestClassifier(
            n_estimators=120,
            min_samples_leaf=3,
            class_weight="balanced_subsample",
            max_samples=min(20_000, len(auxiliary)),
            n_jobs=-1,
            random_state=self.seed % 2**32,
        ).fit(auxiliary.vectors.astype("float32"), auxiliary.codes)
        self.model_.n_jobs = 1  # several threads sum the votes in varying order, and the last bits would differ

    def scores(self, vectors: FloatArray) -> FloatArray:
        """Return the logarithm of the votes."""
        return log_probabilities(self.model_.predict_proba(vectors.astype("float32")))
