"""Output entropy and its shape: how certain a classifier is, and whether that depends on s.

Some curious classifiers write s into how certain they are (the regularised attack of Malekzadeh, Borovykh and Gündüz
2021 does so). H is the entropy of a record's probabilities, at most log₂ Y bits. Guarantee: none; a difference between
values of s may also come from one of them being harder to classify.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fedveil.audit.outputs import Outputs
from fedveil.core.arrays import FloatArray
from fedveil.core.figures import Estimate
from fedveil.core.measures import bootstrap_weights, interval
from fedveil.core.randomness import numpy_generator
from fedveil.data.attribute import Attribute

BINS = 20
_NEAR = 0.1
"""Near 0 and near the maximum means: within this share of log₂ Y."""

_DRAWS = 1000


@dataclass(frozen=True, eq=False)
class Spread:
    """The entropy of outputs.

    Attributes:
        most: log₂ Y.
        mean: over all records.
        above_one_bit, near_zero, near_most: shares of records with H > 1, H ≤ .1 log₂ Y, H ≥ .9 log₂ Y.
        edges: of the histogram's bins.
        counts: (values of s, bins).
        by_value: mean by value of s.
        difference: the highest of these means less the lowest.
    """

    most: float
    mean: Estimate
    above_one_bit: float
    near_zero: float
    near_most: float
    edges: tuple[float, ...]
    counts: tuple[tuple[int, ...], ...]
    by_value: dict[str, Estimate]
    difference: Estimate

    def as_dict(self) -> dict[str, Any]:
        """Return the form that `--json` prints."""
        return {
            "most_bits": self.most,
            "mean_bits": self.mean.as_dict(),
            "share_above_one_bit": self.above_one_bit,
            "share_near_zero": self.near_zero,
            "share_near_most": self.near_most,
            "histogram": {
                "edges": list(self.edges),
                "counts": {name: list(row) for name, row in zip(self.by_value, self.counts, strict=True)},
            },
            "mean_bits_by_value": {name: mean.as_dict() for name, mean in self.by_value.items()},
            "difference_bits": self.difference.as_dict(),
        }


def spread(outputs: Outputs, secret: Attribute, confidence: float = 0.95, seed: int = 0) -> Spread:
    """Measure output entropy, by the values of a secret that every record carries."""
    bits, most = outputs.entropies, float(np.log2(len(outputs.y.values)))
    edges = np.linspace(0, most, BINS + 1)
    counts = [np.histogram(np.minimum(bits[secret.codes == k], most), edges)[0] for k in range(len(secret.values))]
    one_hot = np.eye(len(secret.values))[secret.codes]
    means: list[FloatArray] = []
    alone: list[FloatArray] = []
    for weights in bootstrap_weights(len(bits), outputs.groups, _DRAWS, numpy_generator(seed, "output entropy")):
        means.append((weights @ bits) / weights.sum(axis=1))
        alone.append((weights @ (one_hot * bits[:, None])) / np.maximum(weights @ one_hot, 1e-12))
    by_value = np.concatenate(alone)
    highest, lowest = int(by_value[0].argmax()), int(by_value[0].argmin())
    return Spread(
        most=most,
        mean=interval(np.concatenate(means), confidence),
        above_one_bit=float((bits > 1).mean()),
        near_zero=float((bits <= _NEAR * most).mean()),
        near_most=float((bits >= (1 - _NEAR) * most).mean()),
        edges=tuple(float(edge) for edge in edges),
        counts=tuple(tuple(int(count) for count in row) for row in counts),
        by_value={name: interval(by_value[:, k], confidence) for k, name in enumerate(secret.values)},
        difference=interval(by_value[:, highest] - by_value[:, lowest], confidence),
    )
