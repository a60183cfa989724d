"""The figures by which an attacker is judged, each with a bootstrap interval over victims.

If victims belong to groups (persons, speakers), whole groups are drawn: records of one person are
not independent evidence. With K values, advantage = (K · balanced accuracy − 1) / (K − 1).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from fedveil.core.arrays import FloatArray, IntArray
from fedveil.core.bootstrap import bootstrap_weights
from fedveil.core.errors import InputError
from fedveil.core.figures import Estimate
from fedveil.core.randomness import numpy_generator

Figures = TypeVar("Figures", float, FloatArray)
"""One figure, or an array of figures."""

_SHARE_DRAWS = 1000
"""Bootstrap draws for the interval of a share of right guesses, if records come in groups."""

_ENOUGH_VICTIMS = 30
"""With at least this many victims of every value, the bootstrap's intervals are wide enough as they are."""


@dataclass(frozen=True, eq=False)
class Predictions:
    """One attacker's guesses about some records.

    Attributes:
        codes: the true codes.
        balanced: the guesses that are judged by balanced accuracy.
        plain: the guesses that are judged by accuracy.
        log_posterior: calibrated natural log-probabilities, (n, K).
        prior: the class frequencies that the attacker knew beforehand.
    """

    codes: IntArray
    balanced: IntArray
    plain: IntArray
    log_posterior: FloatArray
    prior: FloatArray

    def __repr__(self) -> str:
        return f"Predictions(n={len(self.codes)}, classes={len(self.prior)})"

    @property
    def surprise(self) -> FloatArray:
        """Bits by which each record's true value surprises the posterior: −log2 q(u | r)."""
        log_q = self.log_posterior[np.arange(len(self.codes)), self.codes]
        return np.asarray(-log_q / np.log(2), dtype=np.float64)

    @property
    def recalls(self) -> tuple[FloatArray, IntArray]:
        """For each value, the share that the balanced guesses get right, and the number of its records."""
        counts = np.bincount(self.codes, minlength=len(self.prior))
        right = np.bincount(self.codes[self.balanced == self.codes], minlength=len(self.prior))
        return right / np.maximum(counts, 1), counts


def resampled(
    predictions: Predictions, groups: IntArray | None, draws: int, rng: np.random.Generator
) -> dict[str, FloatArray]:
    """Return every measure of one attacker for the sample (entry 0) and for each bootstrap draw."""
    return resampled_together([predictions], groups, draws, rng)[0]


def resampled_together(
    attackers: Sequence[Predictions], groups: IntArray | None, draws: int, rng: np.random.Generator
) -> list[dict[str, FloatArray]]:
    """Return every measure of several attackers on the same records, all by the same draws.

    The prior is the records' share of the value that is most frequent in the attacker's data. Information is H(u) of
    the records minus the posterior's cross-entropy, clipped to [0, H(u)]: an estimate of a lower bound on I(u; r).
    Every measure is a ratio of weighted sums, so one product of weights and columns yields all of them; the area under
    the ROC curve is one to first order (`_area_columns`).
    """
    codes, classes = attackers[0].codes, attackers[0].log_posterior.shape[1]
    one_hot = np.eye(classes)[codes]
    layout = [_columns_of(predictions, one_hot) for predictions in attackers]
    columns = np.hstack([one_hot, *(block for block, _ in layout)]).astype(np.float32)
    sums = np.concatenate(
        [weights.astype(np.float32) @ columns for weights in bootstrap_weights(len(codes), groups, draws, rng)]
    ).astype(np.float64)
    sums[0] = np.hstack([one_hot, *(block for block, _ in layout)]).sum(axis=0)  # the sample itself without rounding
    mass, start, figures = sums[:, :classes], classes, []
    for predictions, (block, areas) in zip(attackers, layout, strict=True):
        stop = start + block.shape[1]
        figures.append(_measures(predictions, mass, sums[:, start:stop], areas))
        start = stop
    return figures


def _columns_of(predictions: Predictions, one_hot: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the columns whose weighted sums make up an attacker's measures, and the sample's areas.

    They are: right balanced guesses of each value, right plain guesses, surprise, and two for each area.
    """
    codes, classes = predictions.codes, one_hot.shape[1]
    right = one_hot * (predictions.balanced == codes)[:, None]
    plain = (predictions.plain == codes).astype(np.float64)[:, None]
    # With two classes one area is enough: the other is the same curve seen from the other side.
    areas = [_area_columns(predictions.log_posterior[:, c], codes == c) for c in range(classes == 2, classes)]
    parts = [right, plain, predictions.surprise[:, None], *(columns for columns, _ in areas)]
    return np.hstack(parts), np.array([area for _, area in areas])


def _measures(predictions: Predictions, mass: FloatArray, sums: FloatArray, areas: FloatArray) -> dict[str, FloatArray]:
    """Return one attacker's measures from the weighted sums of its columns, one entry for each draw."""
    classes = mass.shape[1]
    total = mass.sum(axis=1)
    shares = mass / total[:, None]
    entropy = -np.where(shares > 0, shares * np.log2(np.where(shares > 0, shares, 1)), 0).sum(axis=1)
    positives = mass[:, classes - len(areas) :]
    above, below = sums[:, classes + 2 :: 2], sums[:, classes + 3 :: 2]
    projected = _ratio(above, positives) + _ratio(below, total[:, None] - positives) - areas
    balanced_accuracy = _mean_without_nan(_ratio(sums[:, :classes], mass))
    accuracy, prior = sums[:, classes] / total, shares[:, int(np.argmax(predictions.prior))]
    information = entropy - sums[:, classes + 1] / total
    return {
        "accuracy": accuracy,
        "prior": prior,
        "gap": accuracy - prior,
        "balanced_accuracy": balanced_accuracy,
        "advantage": advantage_from_balanced_accuracy(balanced_accuracy, classes),
        "auc": _mean_without_nan(np.clip(projected, 0, 1)),
        "raw_information": information,
        "entropy": entropy,
        "mutual_information_bits": np.clip(information, 0, entropy),
    }


def _area_columns(scores: FloatArray, positive: np.ndarray) -> tuple[FloatArray, float]:
    """Return what each record contributes to the area under the ROC curve, ties counted half, and the area.

    The area is a two-sample U-statistic. In a resample it equals, up to O(1/n), the mean over positives of the share
    of negatives below plus the mean over negatives of the share of positives above, minus the area itself (Hoeffding's
    projection; DeLong et al. 1988). The first column holds the former shares, the second the latter.
    """
    ordered = [np.sort(scores[part]) for part in (~positive, positive)]
    columns = np.zeros((len(scores), 2))
    for column, (others, part) in enumerate(zip(ordered, (positive, ~positive), strict=True)):
        if not len(others):
            continue
        lower, upper = (np.searchsorted(others, scores[part], side) for side in ("left", "right"))
        share = (lower + upper) / (2 * len(others))
        columns[part, column] = share if column == 0 else 1 - share
    return columns, float(columns[positive, 0].mean()) if positive.any() else math.nan


def interval(draws: FloatArray, confidence: float) -> Estimate:
    """Return the sample's figure (entry 0) with the percentile interval of the draws."""
    tail = (1 - confidence) / 2
    low, high = np.nanquantile(draws[1:], [tail, 1 - tail])
    point = float(draws[0])
    return Estimate(point, min(float(low), point), max(float(high), point), confidence)


def figures_of(
    draws: dict[str, FloatArray], recalls: FloatArray, units: IntArray, confidence: float
) -> dict[str, Estimate]:
    """Return every measure with its interval, widened where the bootstrap's interval is too narrow.

    A value with few victims, or one that is always or never guessed, hardly varies from draw to draw. In that case
    the intervals of accuracy and balanced accuracy are widened to include those that add two right and two wrong
    guesses (Agresti and Coull 1998); the lower end of the area's interval is moved down by as much as that of
    balanced accuracy. `units` counts the victims of each value, or their groups if they come in groups.
    """
    figures = {name: interval(values, confidence) for name, values in draws.items()}
    recalls, units = recalls[units > 0], units[units > 0]
    if (units >= _ENOUGH_VICTIMS).all() and ((recalls > 0) & (recalls < 1)).all():
        return figures
    classes = len(recalls)
    low, high = smoothed_interval(recalls, units, confidence)
    figures["balanced_accuracy"] = _widened(figures["balanced_accuracy"], low, high)
    ends = (advantage_from_balanced_accuracy(end, classes) for end in (low, high))
    figures["advantage"] = _widened(figures["advantage"], *ends)
    lower_margin = figures["balanced_accuracy"].estimate - figures["balanced_accuracy"].low
    figures["auc"] = _widened(figures["auc"], max(0.0, figures["auc"].estimate - lower_margin), figures["auc"].high)
    accuracy = figures["accuracy"].estimate
    low, high = smoothed_interval(np.array([accuracy]), np.array([units.sum()]), confidence)
    figures["accuracy"] = _widened(figures["accuracy"], low, high)
    gap = figures["gap"].estimate
    figures["gap"] = _widened(
        figures["gap"], gap - (accuracy - figures["accuracy"].low), gap + figures["accuracy"].high - accuracy
    )
    return figures


def share_right(
    right: npt.ArrayLike, groups: IntArray | None = None, *, confidence: float = 0.95, seed: int = 0
) -> Estimate:
    """Return the share of right guesses with its interval: Agresti and Coull's, or with groups the bootstrap's.

    >>> print(share_right([True] * 90 + [False] * 10))
    0.900 [0.823, 0.946]
    """
    each = np.asarray(right, dtype=np.float64)
    if groups is None:
        point = float(each.mean())
        low, high = smoothed_interval(np.array([point]), np.array([len(each)]), confidence)
        return Estimate(point, min(low, point), max(high, point), confidence)
    weights = bootstrap_weights(len(each), groups, _SHARE_DRAWS, numpy_generator(seed, "share"))
    return interval(np.concatenate([(block @ each) / block.sum(axis=1) for block in weights]), confidence)


def smoothed_interval(shares: FloatArray, units: IntArray | FloatArray, confidence: float) -> tuple[float, float]:
    """Return Agresti and Coull's interval for the mean of several shares, each measured on its entry of `units`."""
    smoothed = (shares * units + 2) / (units + 4)
    error = np.sqrt((smoothed * (1 - smoothed) / (units + 4)).sum()) / len(shares)
    half, middle = float(ndtri((1 + confidence) / 2) * error), float(smoothed.mean())
    return max(0.0, middle - half), min(1.0, middle + half)


def counting_units(codes: IntArray, classes: int, groups: IntArray | None) -> IntArray:
    """Return how many victims have each value; with groups, how many groups: their records are not independent."""
    if groups is None:
        return np.bincount(codes, minlength=classes).astype(np.int64)
    return np.array([len(np.unique(groups[codes == code])) for code in range(classes)], dtype=np.int64)


def chance_error(codes: IntArray, classes: int, groups: IntArray | None) -> float:
    """Return the standard error of balanced accuracy for an attacker who guesses evenly at random.

    Var = Σ_k (1/K)(1 − 1/K) / n_k / K², where n_k counts groups if there are any, else victims.
    """
    units = counting_units(codes, classes, groups)
    return float(np.sqrt(((1 / classes) * (1 - 1 / classes) / units).sum()) / classes)


def detectable_advantage(codes: IntArray, classes: int, groups: IntArray | None, confidence: float = 0.95) -> float:
    """Return the smallest advantage that a one-sided test on these victims detects with power 0.8."""
    excess = (ndtri(confidence) + ndtri(0.8)) * chance_error(codes, classes, groups)
    return float(min(1.0, excess * classes / (classes - 1)))


def advantage_from_balanced_accuracy(balanced_accuracy: Figures, values: int) -> Figures:
    """Return (K·BA − 1)/(K − 1): 0 for guessing, 1 for certainty.

    >>> advantage_from_balanced_accuracy(0.75, 2)
    0.5
    """
    if values < 2:
        raise InputError(f"advantage: an attribute needs at least two values, got {values}")
    return (values * balanced_accuracy - 1.0) / (values - 1)


def _widened(figure: Estimate, low: float, high: float) -> Estimate:
    return Estimate(figure.estimate, min(figure.low, low), max(figure.high, high), figure.confidence)


def _ratio(part: FloatArray, whole: FloatArray) -> FloatArray:
    """Divide; the result is NaN if the divisor is 0: a draw may contain no record of a rare value."""
    return np.divide(part, whole, out=np.full_like(part, np.nan), where=whole > 0)


def _mean_without_nan(values: FloatArray) -> FloatArray:
    """Return the mean of each row's entries that are not NaN; NaN for a row without any."""
    counts = ~np.isnan(values)
    return _ratio(np.where(counts, values, 0).sum(axis=1), counts.sum(axis=1).astype(np.float64))
