"""Output entropy: how certain a classifier is, and whether that depends on s.

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
from fedveil.core.bootstrap import bootstrap_weights
from fedveil.core.figures import Estimate
from fedveil.core.measures import interval
from fedveil.core.randomness import numpy_generator
from fedveil.data.attribute import Attribute

BINS = 20
_NEAR = 0.1
"""An entropy counts as near 0, or near the maximum log₂ Y, if it is within this share of log₂ Y of it."""

_DRAWS = 1000


@dataclass(frozen=True, eq=False)
class OutputEntropy:
    """The entropy of a classifier's outputs.

    Attributes:
        most: log₂ Y, the highest possible.
        mean: over all records.
        above_one_bit, near_zero, near_most: shares of records with H > 1, H ≤ .1 log₂ Y, H ≥ .9 log₂ Y.
        edges: the edges of the histogram's bins.
        counts: records in each bin, (values of s, bins).
        by_value: the mean for each value of s.
        difference: the highest of these means minus the lowest.
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


def output_entropy(outputs: Outputs, secret: Attribute, confidence: float = 0.95, seed: int = 0) -> OutputEntropy:
    """Measure output entropy for each value of an attribute that every record carries."""
    bits, most = outputs.entropies, float(np.log2(len(outputs.y.values)))
    edges = np.linspace(0, most, BINS + 1)
    counts = [np.histogram(np.minimum(bits[secret.codes == k], most), edges)[0] for k in range(len(secret.values))]
    one_hot = np.eye(len(secret.values))[secret.codes]
    means: list[FloatArray] = []
    means_by_value: list[FloatArray] = []
    for weights in bootstrap_weights(len(bits), outputs.groups, _DRAWS, numpy_generator(seed, "output entropy")):
        means.append((weights @ bits) / weights.sum(axis=1))
        means_by_value.append((weights @ (one_hot * bits[:, None])) / np.maximum(weights @ one_hot, 1e-12))
    by_value = np.concatenate(means_by_value)
    highest, lowest = int(by_value[0].argmax()), int(by_value[0].argmin())
    return OutputEntropy(
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
