"""The certificate's helper q(v | ŷ, u[, d]): counts of the code's few cells, which fall back on a network.

Any helper that is fixed before the held-out records are seen gives a valid certificate; a better one, a lower bound.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fedveil.core.arrays import FloatArray, IntArray
from fedveil.core.learning import Recipe, fit_network, log_posterior
from fedveil.core.standardise import Standardiser

_NETWORK = Recipe(hidden=(64,), most_epochs=30)
_TRUST = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
"""Records' worth of the network that a cell's counts are added to; one is chosen by leaving records out."""

Helper = Callable[[FloatArray], FloatArray]


def fit_helper(
    train: tuple[FloatArray, IntArray], validation: tuple[FloatArray, IntArray], classes: int, seed: int = 0
) -> Helper:
    """Return what gives log-probabilities of v for rows that hold ŷ and u, and d where it counts.

    q = (n(row, v) + a·q_network(v | row)) / (n(row) + a), n counted on validation people: the encoder has not seen
    them, and tells no more of their v than of anybody's. a is the one under which each of them is likeliest by the
    counts of the others. The network learns from training people.
    """
    scale = Standardiser.fit(train[0])
    network = fit_network(
        (scale.apply(train[0]), train[1]),
        (scale.apply(validation[0]), validation[1]),
        classes,
        _NETWORK,
        even=False,
        seed=seed,
    )

    def backing(rows: FloatArray) -> FloatArray:
        return np.exp(log_posterior(network, scale.apply(rows)))

    met, cells = np.unique(validation[0] + 0.0, axis=0, return_inverse=True)
    places = {row.tobytes(): place for place, row in enumerate(met)}
    counts = np.zeros((len(met) + 1, classes))  # the last row, without counts, is for cells never met
    np.add.at(counts, (cells.reshape(-1), validation[1]), 1.0)
    own = counts[cells.reshape(-1)]
    at_label = (np.arange(len(own)), validation[1])
    likely = backing(validation[0])[at_label]

    def without_itself(trust: float) -> float:
        return float(np.log((own[at_label] - 1 + trust * likely) / (own.sum(axis=1) - 1 + trust)).sum())

    trust = max(_TRUST, key=without_itself)

    def helper(rows: FloatArray) -> FloatArray:
        # Adding 0 turns −0 into 0, which would have other bytes.
        found = counts[[places.get(row.tobytes(), len(met)) for row in np.ascontiguousarray(rows + 0.0)]]
        mixed = found + trust * backing(rows)
        return np.asarray(np.log(mixed / mixed.sum(axis=1, keepdims=True)))

    return helper
