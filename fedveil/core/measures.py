"""The figures by which an attacker is judged, each with a bootstrap interval over victims.

If victims belong to groups (persons, speakers), whole groups are drawn: records of one person are
not independent evidence. With K values, advantage = (K · balanced accuracy − 1) / (K − 1).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from fedveil.core.arrays import FloatArray, IntArray
from fedveil.core.errors import InputError
from fedveil.core.figures import Estimate
from fedveil.core.randomness import numpy_generator

Figures = TypeVar("Figures", float, FloatArray)
"""One figure, or an array of figures."""

_CELLS_AT_ONCE = 8_000_000
"""How many resampling weights are held in memory at a time."""

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


def bootstrap_weights(n: int, groups: IntArray | None, draws: int, rng: np.random.Generator) -> Iterator[FloatArray]:
    """Yield blocks of resampling weights, (draws in the block, n); the very first row is the sample itself."""
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
    """Return every measure for the sample (entry 0) and for each bootstrap draw.

    The prior is the victims' share of the value that is most frequent in the attacker's data. Information is H(u) of
    the victims minus the posterior's cross-entropy, clipped to [0, H(u)]: an estimate of a lower bound on I(u; r).
    """
    codes, classes = predictions.codes, predictions.log_posterior.shape[1]
    one_hot = np.eye(classes)[codes]
    right_balanced = one_hot * (predictions.balanced == codes)[:, None]
    right_plain = (predictions.plain == codes).astype(np.float64)
    surprise, commonest = predictions.surprise, int(np.argmax(predictions.prior))
    # With two classes one area is enough: the other is the same curve seen from the other side.
    ranking = {code: _ranked(predictions.log_posterior[:, code]) for code in range(1 if classes == 2 else 0, classes)}
    rows: dict[str, list[FloatArray]] = {
        name: [] for name in ("accuracy", "prior", "balanced_accuracy", "auc", "raw_information", "entropy")
    }
    for weights in bootstrap_weights(len(codes), groups, draws, rng):
        total = weights.sum(axis=1)
        mass = weights @ one_hot
        shares = mass / total[:, None]
        entropy = -np.where(shares > 0, shares * np.log2(np.where(shares > 0, shares, 1)), 0).sum(axis=1)
        areas = np.stack([_areas(weights, codes == code, *ranked) for code, ranked in ranking.items()], axis=1)
        rows["accuracy"].append((weights @ right_plain) / total)
        rows["prior"].append(shares[:, commonest])
        rows["balanced_accuracy"].append(_mean_without_nan(_ratio(weights @ right_balanced, mass)))
        rows["auc"].append(_mean_without_nan(areas))
        rows["raw_information"].append(entropy - (weights @ surprise) / total)
        rows["entropy"].append(entropy)
    figures = {name: np.concatenate(parts) for name, parts in rows.items()}
    figures["gap"] = figures["accuracy"] - figures["prior"]
    figures["advantage"] = advantage_from_balanced_accuracy(figures["balanced_accuracy"], classes)
    figures["mutual_information_bits"] = np.clip(figures["raw_information"], 0, figures["entropy"])
    return figures


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


def _ranked(scores: FloatArray) -> tuple[IntArray, IntArray]:
    """Return the ascending order and the positions in it at which each run of equal scores starts."""
    order = np.argsort(scores, kind="stable")
    ordered = scores[order]
    return order, np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))


def _areas(weights: FloatArray, positive: np.ndarray, order: IntArray, starts: IntArray) -> FloatArray:
    """Return the weighted area under the ROC curve, ties counted half, for each row of weights."""
    ordered, is_positive = weights[:, order], positive[order]
    positives = np.add.reduceat(ordered * is_positive, starts, axis=1)
    negatives = np.add.reduceat(ordered * ~is_positive, starts, axis=1)
    below = np.cumsum(negatives, axis=1) - negatives / 2
    return _ratio((positives * below).sum(axis=1), positives.sum(axis=1) * negatives.sum(axis=1))
