"""How much the labels themselves reveal about s: what y and ŷ explain, by counting.

Symbols: s the sensitive attribute, y the true label, ŷ the predicted one. I(s; y) is what the task's label reveals
about s, whoever predicts it; I(s; y, ŷ) is what label and prediction reveal together. The plug-in estimate of
information is too high by about (|A| − 1)(|B| − 1)/(2n ln 2) bits (Miller 1955), and the bootstrap adds the same error
again; so the bias is subtracted once from the figure and twice from the draws. Guarantee: none; these are estimates for
the population that the rows come from.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fedveil.audit.outputs import Outputs, label_cells
from fedveil.core.arrays import FloatArray, IntArray
from fedveil.core.bootstrap import bootstrap_weights
from fedveil.core.entropy import plug_in_conditional_entropy, plug_in_entropy
from fedveil.core.figures import Estimate
from fedveil.core.measures import interval
from fedveil.core.randomness import numpy_generator
from fedveil.data.attribute import Attribute

_DRAWS = 1000


@dataclass(frozen=True)
class Explained:
    """Bits about s in the labels.

    Attributes:
        entropy: H(s).
        left: H(s | y, ŷ): what remains unknown to somebody who knows both labels.
        target_values: how many values y has.
        by_target: I(s; y).
        by_predicted: I(s; ŷ).
        by_both: I(s; y, ŷ).
    """

    entropy: float
    left: float
    target_values: int
    by_target: Estimate
    by_predicted: Estimate
    by_both: Estimate

    def as_dict(self) -> dict[str, Any]:
        """Return the form that `--json` prints."""
        return {
            "entropy_bits": self.entropy,
            "left_bits": self.left,
            "target_values": self.target_values,
            "by_target_bits": self.by_target.as_dict(),
            "by_predicted_bits": self.by_predicted.as_dict(),
            "by_both_bits": self.by_both.as_dict(),
        }


def explained(outputs: Outputs, secret: Attribute, confidence: float = 0.95, seed: int = 0) -> Explained:
    """Count what the labels reveal about an attribute that every record carries."""
    s, both = secret.codes, label_cells(outputs)

    def information(labels: IntArray) -> Estimate:
        return counted_information(s, labels, outputs.groups, confidence, seed)

    return Explained(
        entropy=plug_in_entropy(s),
        left=plug_in_conditional_entropy(s, both),
        target_values=len(outputs.y.values),
        by_target=information(outputs.y.codes),
        by_predicted=information(outputs.predicted),
        by_both=information(both),
    )


def counted_information(
    s: IntArray, labels: IntArray, groups: IntArray | None, confidence: float = 0.95, seed: int = 0
) -> Estimate:
    """Estimate I(s; label) in bits by counting, with the bias of counting removed, and a bootstrap interval."""
    rows, columns = (np.unique(codes, return_inverse=True)[1] for codes in (s, labels))
    width, height = int(columns.max()) + 1, int(rows.max()) + 1
    tables = _resampled_counts(rows * width + columns, height * width, groups, numpy_generator(seed, "counted"))
    draws = _information(tables.reshape(-1, height, width))
    bias = float(draws[1:].mean() - draws[0])
    draws[1:] -= 2 * bias
    draws[0] -= bias
    return interval(np.maximum(draws, 0.0), confidence)


def _resampled_counts(cells: IntArray, size: int, groups: IntArray | None, rng: np.random.Generator) -> FloatArray:
    """Return the counts of all cells in the sample and in each bootstrap draw of it."""
    counts = np.bincount(cells, minlength=size)
    if groups is None:  # resampling single records is the same as drawing from the counts
        drawn = rng.multinomial(len(cells), counts / len(cells), size=_DRAWS)
        return np.vstack([counts, drawn]).astype(np.float64)
    one_hot = np.eye(size)[cells]
    return np.concatenate([weights @ one_hot for weights in bootstrap_weights(len(cells), groups, _DRAWS, rng)])


def _information(tables: FloatArray) -> FloatArray:
    """Return the mutual information of each table of counts."""
    joint = tables / tables.sum(axis=(1, 2), keepdims=True)
    return _entropies(joint.sum(axis=1)) + _entropies(joint.sum(axis=2)) - _entropies(joint.reshape(len(joint), -1))


def _entropies(p: FloatArray) -> FloatArray:
    return np.asarray(-(p * np.log2(np.where(p > 0, p, 1.0))).sum(axis=1), dtype=np.float64)
