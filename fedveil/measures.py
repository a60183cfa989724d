"""The figures by which an attacker is judged, each with a bootstrap interval over victims.

Where victims belong to groups (persons, speakers), whole groups are drawn: records of one person are
not independent evidence. With K values, advantage = (K · balanced accuracy − 1) / (K − 1).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from fedveil.data.attribute import IntArray
from fedveil.figures import Estimate

FloatArray = npt.NDArray[np.float64]

_CELLS_AT_ONCE = 8_000_000
"""How many resampling weights are held in memory at a time."""


@dataclass(frozen=True, eq=False)
class Predictions:
    """What one attacker says of the victims.

    Attributes:
        codes: the victims' true codes.
        balanced: its guesses when judged by balanced accuracy.
        plain: its guesses when judged by accuracy.
        log_posterior: calibrated natural log-probabilities, (n, K).
        prior: the class frequencies that the attacker knew beforehand.
    """

    codes: IntArray
    balanced: IntArray
    plain: IntArray
    log_posterior: FloatArray
    prior: FloatArray

    @property
    def information(self) -> FloatArray:
        """Bits that each record's posterior gains over the prior; their mean bounds I(u; r) from below."""
        gained = self.log_posterior[np.arange(len(self.codes)), self.codes] - np.log(self.prior[self.codes])
        return np.asarray(gained / np.log(2), dtype=np.float64)


def bootstrap_weights(n: int, groups: IntArray | None, draws: int, rng: np.random.Generator) -> Iterator[FloatArray]:
    """Yield blocks of resampling weights, (draws in the block, n); the first row of all is the sample itself."""
    yield np.ones((1, n))
    unit_of_row = np.arange(n) if groups is None else np.unique(groups, return_inverse=True)[1]
    units = int(unit_of_row.max()) + 1
    even = np.full(units, 1 / units)
    block = max(1, _CELLS_AT_ONCE // n)
    for start in range(0, draws, block):
        drawn = rng.multinomial(units, even, size=min(block, draws - start)).astype(np.float64)
        yield drawn if groups is None else drawn[:, unit_of_row]


def resampled(
    predictions: Predictions, groups: IntArray | None, draws: int, rng: np.random.Generator
) -> dict[str, FloatArray]:
    """Return every measure for the sample (entry 0) and for each bootstrap draw."""
    codes, classes = predictions.codes, predictions.log_posterior.shape[1]
    one_hot = np.eye(classes)[codes]
    right_balanced = one_hot * (predictions.balanced == codes)[:, None]
    right_plain = (predictions.plain == codes).astype(np.float64)
    information = predictions.information
    # With two classes one area says it all: the other is the same curve from the other side.
    ranking = {code: _ranked(predictions.log_posterior[:, code]) for code in range(1 if classes == 2 else 0, classes)}
    rows: dict[str, list[FloatArray]] = {
        name: [] for name in ("accuracy", "prior", "balanced_accuracy", "auc", "raw_information", "entropy")
    }
    for weights in bootstrap_weights(len(codes), groups, draws, rng):
        total = weights.sum(axis=1)
        mass = weights @ one_hot
        with np.errstate(
            invalid="ignore", divide="ignore"
        ):  # a draw may miss a rare class: that class is left out of it
            recall = (weights @ right_balanced) / mass
            areas = np.stack([_areas(weights, codes == code, *ranked) for code, ranked in ranking.items()])
            shares = mass / total[:, None]
            entropy = -np.where(shares > 0, shares * np.log2(np.where(shares > 0, shares, 1)), 0).sum(axis=1)
        rows["accuracy"].append((weights @ right_plain) / total)
        rows["prior"].append(shares.max(axis=1))
        rows["balanced_accuracy"].append(np.nanmean(recall, axis=1))
        rows["auc"].append(np.nanmean(areas, axis=0))
        rows["raw_information"].append((weights @ information) / total)
        rows["entropy"].append(entropy)
    figures = {name: np.concatenate(parts) for name, parts in rows.items()}
    figures["gap"] = figures["accuracy"] - figures["prior"]
    figures["advantage"] = (classes * figures["balanced_accuracy"] - 1) / (classes - 1)
    # Information is never negative nor more than there is to know; a worse posterior than the prior has found nothing.
    figures["mutual_information_bits"] = np.clip(figures["raw_information"], 0, figures["entropy"])
    return figures


def interval(draws: FloatArray, confidence: float) -> Estimate:
    """Return the sample's figure (entry 0) with the percentile interval of the draws."""
    tail = (1 - confidence) / 2
    low, high = np.nanquantile(draws[1:], [tail, 1 - tail])
    point = float(draws[0])
    return Estimate(point, min(float(low), point), max(float(high), point), confidence)


def chance_error(codes: IntArray, classes: int, groups: IntArray | None) -> float:
    """Return the standard error of balanced accuracy for an attacker who guesses evenly at random.

    Var = Σ_k (1/K)(1 − 1/K) / n_k / K². Where there are groups, n_k counts groups: within one of them
    the records may all stand or fall together.
    """
    units = [
        len(np.unique(groups[codes == k])) if groups is not None else int((codes == k).sum()) for k in range(classes)
    ]
    return float(np.sqrt(sum((1 / classes) * (1 - 1 / classes) / n for n in units)) / classes)


def detectable_advantage(codes: IntArray, classes: int, groups: IntArray | None, confidence: float = 0.95) -> float:
    """Return the smallest advantage that this many victims could have shown, with power .8."""
    excess = (ndtri(confidence) + ndtri(0.8)) * chance_error(codes, classes, groups)
    return float(min(1.0, excess * classes / (classes - 1)))


def _ranked(scores: FloatArray) -> tuple[IntArray, IntArray]:
    """Return the ascending order and where each run of equal scores starts in it."""
    order = np.argsort(scores, kind="stable")
    ordered = scores[order]
    return order, np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))


def _areas(weights: FloatArray, positive: np.ndarray, order: IntArray, starts: IntArray) -> FloatArray:
    """Return the weighted area under the ROC curve, ties counted half, for each row of weights."""
    ordered, is_positive = weights[:, order], positive[order]
    positives = np.add.reduceat(ordered * is_positive, starts, axis=1)
    negatives = np.add.reduceat(ordered * ~is_positive, starts, axis=1)
    below = np.cumsum(negatives, axis=1) - negatives / 2
    return np.asarray((positives * below).sum(axis=1) / (positives.sum(axis=1) * negatives.sum(axis=1)))
