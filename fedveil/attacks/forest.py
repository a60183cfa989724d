"""Random forest (up to 120 trees, as many as RecUP-FL's attacker has)."""

from __future__ import annotations

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.utils.class_weight import compute_sample_weight

from fedveil.attacks.attack import Attack, Labelled, evenly, log_probabilities
from fedveil.attacks.binning import Codes, binned, screening_note
from fedveil.core.arrays import FloatArray, FloatingArray
from fedveil.core.randomness import child_seed, numpy_generator
from fedveil.core.threads import single_thread

_BINS = 64
"""Few values per column make sorting, which dominates the cost, twice as fast."""
_ROWS_AT_ONCE = 16_384


class Forest(Attack):
    """Class-weighted random forest; leaves of at least three records keep its votes from being all or nothing.

    Trees are added twenty at a time until the validation loss of their average hardly falls any more. Each learns
    from half of the vectors, but at least 5,000 and at most 10,000 of them (drawn with replacement): trees that share
    fewer vectors differ more, and their average reads as much.
    """

    name = "forest"
    most_vectors = 100_000
    most_columns = 512
    most_trees = 120
    block = 20
    least_gain = 3e-4
    """How much the last two blocks must have lowered the log-loss for a further one to be grown."""

    def fit(self, auxiliary: Labelled, validation: Labelled, classes: int) -> None:
        """Grow trees until the validation loss stalls."""
        self.notes = ()
        columns = auxiliary.vectors.shape[1]
        part = self.capped(auxiliary, self.most_vectors, classes)
        held_out = evenly(validation, 5_000, classes, numpy_generator(self.seed, "validation"))
        self.binning_, codes = binned(part, classes, _BINS, self.most_columns)
        if codes.shape[1] < columns:
            self.notes = (*self.notes, screening_note(codes.shape[1], columns))
        per_tree = min(len(part), max(len(part) // 2, 5_000), 10_000)
        if per_tree < len(part) // 2:
            self.notes = (*self.notes, f"each tree learned from {per_tree:,} vectors")
        weights, even = (compute_sample_weight("balanced", data.codes) for data in (part, held_out))
        inputs, asked = codes.astype(np.float32), self.binning_.apply(held_out.vectors)
        self.forests_: list[RandomForestClassifier] = []
        votes, losses = np.zeros((len(held_out), classes)), list[float]()
        with single_thread():
            for block in range(self.most_trees // self.block):
                forest = RandomForestClassifier(
                    n_estimators=self.block,
                    min_samples_leaf=3,
                    max_samples=per_tree,
                    random_state=child_seed(self.seed, "trees", block) % 2**32,
                ).fit(inputs, part.codes, weights)
                self.forests_.append(forest)
                votes += _votes(forest, asked)
                losses.append(_loss(votes / (block + 1), held_out, even))
                # one block that gains nothing may be bad luck
                if len(losses) > 2 and losses[-3] - min(losses[-2:]) < self.least_gain:
                    break

    def scores(self, vectors: FloatingArray) -> FloatArray:
        """Return the logarithm of the votes, computed in blocks of bounded size."""
        starts = range(0, max(1, len(vectors)), _ROWS_AT_ONCE)
        with single_thread():
            blocks = (self.binning_.apply(vectors[start : start + _ROWS_AT_ONCE]) for start in starts)
            return np.concatenate([log_probabilities(self._mean_votes(block)) for block in blocks])

    def _mean_votes(self, codes: Codes) -> FloatArray:
        votes: FloatArray = sum((_votes(forest, codes) for forest in self.forests_), start=np.zeros(1))
        return votes / len(self.forests_)


def _votes(forest: RandomForestClassifier, codes: Codes) -> FloatArray:
    return np.asarray(forest.predict_proba(codes.astype(np.float32)), dtype=np.float64)


def _loss(votes: FloatArray, about: Labelled, weights: FloatArray) -> float:
    """Return the weighted log-loss of the votes."""
    log_votes = log_probabilities(votes)[np.arange(len(about)), about.codes]
    return -float(np.average(log_votes, weights=weights))
