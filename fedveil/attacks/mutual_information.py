"""Mutual information between vectors and an attribute, estimated by cross-fitting.

Symbols: u the attribute, r the vectors, q(u | r) a fitted posterior. By Barber and Agakov (2003),
I(u; r) ≥ E[log2 q(u | r) / p(u)] for any q fixed beforehand, with equality if q is the true posterior. With
cross-fitting, every record is scored by a model that has not seen it, so that all n records carry evidence.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from sklearn.linear_model import LogisticRegression

from fedveil.core.arrays import FloatArray, IntArray
from fedveil.core.entropy import entropy
from fedveil.core.errors import InputError
from fedveil.core.figures import Estimate
from fedveil.core.randomness import numpy_generator
from fedveil.core.standardise import Standardiser
from fedveil.data.attribute import Attribute


def cross_fitted_information(
    vectors: npt.ArrayLike,
    attribute: Attribute,
    *,
    groups: IntArray | None = None,
    folds: int = 5,
    draws: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
) -> Estimate:
    """Estimate I(u; r) in bits with a cross-fitted logistic attacker, and a bootstrap interval.

    A model with k parameters, fitted to m records, loses about k / 2m nats on new records, and gains as much on those
    it was fitted to (Akaike). The two cancel in the mean of the in-fold and the out-of-fold score of each record, which
    is therefore the estimate; the out-of-fold score alone would be biased low, visibly so at zero information.
    The interval is the bootstrap's (over whole groups, if there are groups), widened by half the difference of the
    two scores and clipped to [0, H(u)]. Information that a logistic model cannot express is missed; the estimate is
    then one of a lower bound.
    """
    labelled = attribute.known
    r, u = np.asarray(vectors, dtype=np.float64)[labelled], attribute.codes[labelled]
    classes = len(attribute.values)
    fold = _folds(u, None if groups is None else groups[labelled], folds, numpy_generator(seed, "folds"))
    for part in range(folds):
        if len(np.unique(u[fold != part])) < classes:
            raise InputError(
                f"attribute {attribute.name!r}: too few records of some value for {folds} folds; merge it with another"
            )
    out_of_fold, in_fold = np.empty(len(u)), np.zeros(len(u))
    for part in range(folds):
        held_out = fold == part
        gain = _gains(r[~held_out], u[~held_out], classes)
        out_of_fold[held_out] = gain(r[held_out], u[held_out])
        in_fold[~held_out] += gain(r[~held_out], u[~held_out]) / (folds - 1)
    gains = (out_of_fold + in_fold) / 2
    rng = numpy_generator(seed, "bootstrap")
    unit = np.arange(len(u)) if groups is None else np.unique(groups[labelled], return_inverse=True)[1]
    size, total = np.bincount(unit).astype(np.float64), np.bincount(unit, weights=gains)
    drawn = rng.multinomial(len(size), np.full(len(size), 1 / len(size)), size=draws)
    means = (drawn @ total) / (drawn @ size)
    margin = abs(float(in_fold.mean() - out_of_fold.mean())) / 2
    low, high = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2])
    frequencies = np.bincount(u, minlength=classes) / len(u)
    point, low, high = np.clip([gains.mean(), low - margin, high + margin], 0, entropy(frequencies))
    return Estimate(float(point), float(low), float(high), confidence)


def _gains(r: FloatArray, u: IntArray, classes: int) -> Callable[[FloatArray, IntArray], FloatArray]:
    """Fit a posterior, and return the function that computes each record's gain over the prior, in bits."""
    scale = Standardiser.fit(r)
    model = LogisticRegression(C=100.0, max_iter=500).fit(scale.apply(r).astype(np.float64), u)
    log_prior = np.log(np.bincount(u, minlength=classes) / len(u))

    def gain(r: FloatArray, u: IntArray) -> FloatArray:
        log_q = model.predict_log_proba(scale.apply(r).astype(np.float64))[np.arange(len(u)), u]
        return np.asarray((log_q - log_prior[u]) / np.log(2), dtype=np.float64)

    return gain


def _folds(u: IntArray, groups: IntArray | None, folds: int, rng: np.random.Generator) -> IntArray:
    """Assign units to folds at random, stratified by the attribute if there are no groups."""
    if groups is None:
        order = rng.permutation(len(u))
        order = order[np.argsort(u[order], kind="stable")]
        fold = np.empty(len(u), dtype=np.int64)
        fold[order] = np.arange(len(u)) % folds
        return fold
    names, unit = np.unique(groups, return_inverse=True)
    return np.asarray(rng.permutation(np.arange(len(names)) % folds)[unit], dtype=np.int64)
