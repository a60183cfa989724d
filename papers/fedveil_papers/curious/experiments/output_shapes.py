"""The shape of outputs: ROC curves (the paper's Figure 7) and entropies (Figure 8), measured and drawn."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from fedveil.audit.outputs import Outputs
from fedveil_papers.curious import Classifier
from fedveil_papers.curious.experiments.figures import RunFigure

Codes = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

BINS = 40
"""How many bins the histograms of Figure 8 have, from 0 to log2 Y bits."""

POINTS = 100
"""How many points of a ROC curve are kept."""

COLOURS = ("#1b6ca8", "#b5471b", "#2a7f5b", "#7a4fa3", "#c2952b", "#5a5a5a", "#c4577f", "#3fa7b8")


@dataclass(frozen=True)
class RocCurve:
    """A ROC curve, thinned, and the area under the whole curve.

    Attributes:
        area: the area under the curve.
        wrong, right: false and true positive rates.
    """

    area: float
    wrong: list[float]
    right: list[float]

    @classmethod
    def of(cls, codes: Codes, scores: Floats) -> RocCurve:
        """Rank records of codes 0 and 1 by their scores."""
        from sklearn.metrics import roc_auc_score, roc_curve

        wrong, right, _ = roc_curve(codes, scores)
        points = np.unique(np.linspace(0, len(wrong) - 1, POINTS).round().astype(int))
        return cls(float(roc_auc_score(codes, scores)), wrong[points].tolist(), right[points].tolist())


def roc_curves(classifier: Classifier, outputs: Outputs, secret: str) -> dict[str, RocCurve] | None:
    """Return the curves of "y" by F and of "s" by the maker's attack; None unless both have two classes."""
    s = outputs.secrets[secret]
    if not (len(outputs.y.values) == len(s.values) == 2 and s.known.all()):
        return None
    return {
        "y": RocCurve.of(outputs.y.codes, _margin(outputs.scores)),
        "s": RocCurve.of(s.codes, _attack_scores(classifier, outputs, secret)),
    }


def _attack_scores(classifier: Classifier, outputs: Outputs, secret: str) -> Floats:
    """Return the number that the maker's attack thresholds: the entropy, or the margin of G's scores."""
    if secret in classifier.thresholds:
        return outputs.entropies
    with torch.no_grad():
        logits = classifier.attacks[secret](torch.as_tensor(outputs.scores, dtype=torch.float32))
    return _margin(logits.numpy())


def _margin(scores: Floats) -> Floats:
    """Return by how much the second of two scores exceeds the first."""
    return np.asarray(scores[:, 1] - scores[:, 0], dtype=np.float64)


def mean_entropy(outputs: Outputs) -> RunFigure:
    """Return the mean entropy of outputs in bits, with the normal interval of a mean."""
    bits = outputs.entropies
    mean, error = float(bits.mean()), float(bits.std(ddof=1)) / len(bits) ** 0.5
    return RunFigure(mean, mean - 1.96 * error, mean + 1.96 * error)


def entropy_histogram(outputs: Outputs) -> list[float]:
    """Return the shares of outputs in bins of entropy, from 0 to log2 Y bits."""
    counts = np.histogram(outputs.entropies, BINS, (0, np.log2(len(outputs.y.values)) + 1e-9))[0]
    return [float(share) for share in counts / counts.sum()]


def draw_roc(axis: Any, title: str, curves: Sequence[tuple[str, dict[str, RocCurve]]]) -> None:
    """Draw the ROC curves of y and s of several classifiers, given with their names, a colour for each."""
    for number, (name, by_label) in enumerate(curves):
        for label, line in (("y", "-"), ("s", "--")):
            curve = by_label[label]
            axis.plot(
                curve.wrong,
                curve.right,
                line,
                color=COLOURS[number % len(COLOURS)],
                linewidth=1.2,
                label=f"{name}: {label}, area {curve.area:.2f}",
            )
    axis.plot([0, 1], [0, 1], color="grey", linewidth=0.6)
    axis.set(title=title, xlabel="false positive rate", ylabel="true positive rate", aspect="equal")
    axis.legend(frameon=False, fontsize=6, loc="lower right")


def draw_entropies(axis: Any, title: str, histograms: Sequence[tuple[str, list[float]]], classes: int) -> None:
    """Draw how often outputs have an entropy, a line for each classifier, given with their names."""
    for number, (name, shares) in enumerate(histograms):
        width = math.log2(classes) / len(shares)
        edges = [width * edge for edge in range(len(shares) + 1)]
        axis.stairs([share / width for share in shares], edges, color=COLOURS[number % len(COLOURS)], label=name)
    axis.set_yscale("log")
    axis.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.set(title=title, xlabel="H(ŷ), bits", ylabel="density (log)")
    axis.legend(frameon=False, fontsize=7)
