"""The honest reading of a score: what a graded answer about y reveals about an s that is correlated with y.

Symbols: r the probabilities of y's values, s the sensitive attribute. If s and y are correlated, even the best possible
classifier for y reveals s by *how likely* it rates y, not only by ŷ. Somebody who takes r at its word infers
h_s(r) = Σ_k r_k·p(s | y = k). The honest reading is the posterior

    log q(s | y, r) = level(y, s) + g_s(h_s(r)) + const.,    with every g_s increasing,

so that a higher h_s never counts against s. g_s is linear between quantiles of h_s. Because g_s may not decrease, the
honest reading cannot express a code: one that writes s into how certain the answers are, on both sides of each
prediction, would need a g that decreases on one side.

Not all of this reading need be honest. An honest score averages, over the people of each s, to their share of each y
(calibration in groups; Kleinberg, Mullainathan and Raghavan 2017), so the values of s may differ in mean score as they
differ in y. Let Q be the squared difference in score divided by that in y. All of the reading counts as honest up to
Q = 1, none of it from Q = 2 on. Guarantee: none; a model of what correlation explains.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax

from fedveil.audit.outputs import Outputs
from fedveil.core.arrays import FloatArray, IntArray
from fedveil.data.attribute import Attribute

_FIRMNESS = 1.0
"""The pseudo-count of each value of s, for each value of y, when p(s | y) is counted."""

_PIECES = 8
"""Linear pieces of each g_s, all with the same number of records."""

_PENALTY = 0.1
"""The weight of the squared levels and rises in the cost: with it, cells without records stay at 0."""


def graded_posterior(outputs: Outputs, secret: Attribute, half: IntArray) -> FloatArray:
    """Return the honest reading of every record, (n, S), fitted on the half that does not hold it."""
    posterior = np.empty((len(outputs), len(secret.values)))
    y, s = outputs.y.codes, secret.codes
    for side in (0, 1):
        fitted = half == side
        joint = np.full((len(outputs.y.values), len(secret.values)), _FIRMNESS)
        np.add.at(joint, (y[fitted], s[fitted]), 1)
        inferred = outputs.soft @ (joint / joint.sum(axis=1, keepdims=True))
        ramps = np.stack([_ramps(column, fitted) for column in inferred.T], axis=1)
        levels, rises = _fit(y[fitted], s[fitted], ramps[fitted], joint.shape)
        posterior[~fitted] = np.exp(_logs(levels, rises, y[~fitted], ramps[~fitted]))
    return posterior


def _ramps(column: FloatArray, fitted: np.ndarray) -> FloatArray:
    """Return how much of each piece between quantiles of the fitted records lies below each value, 0 to 1."""
    edges = np.quantile(column[fitted], np.linspace(0, 1, _PIECES + 1))
    widths = np.maximum(np.diff(edges), 1e-12)
    return np.asarray(np.clip((column[:, None] - edges[:-1]) / widths, 0, 1), dtype=np.float64)


def _fit(y: IntArray, s: IntArray, ramps: FloatArray, shape: tuple[int, ...]) -> tuple[FloatArray, FloatArray]:
    """Return the most likely levels (Y, S) and rises (S, pieces), the rises not below 0."""
    cells, values = shape[0] * shape[1], shape[1]
    is_y, is_s = np.eye(shape[0])[y], np.eye(values)[s]

    def split(theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        return theta[:cells].reshape(shape), theta[cells:].reshape(values, _PIECES)

    def cost(theta: FloatArray) -> tuple[float, FloatArray]:
        logs = _logs(*split(theta), y, ramps)
        over = np.exp(logs) - is_s
        slopes = np.concatenate([(is_y.T @ over).ravel(), np.einsum("ns,nsk->sk", over, ramps).ravel()])
        return float(-(logs * is_s).sum() + _PENALTY / 2 * theta @ theta), slopes + _PENALTY * theta

    bounds = [(None, None)] * cells + [(0, None)] * (values * _PIECES)
    return split(minimize(cost, np.zeros(len(bounds)), jac=True, method="L-BFGS-B", bounds=bounds).x)


def _logs(levels: FloatArray, rises: FloatArray, y: IntArray, ramps: FloatArray) -> FloatArray:
    return np.asarray(log_softmax(levels[y] + np.einsum("nsk,sk->ns", ramps, rises), axis=1), dtype=np.float64)


def weight(outputs: Outputs, secret: Attribute) -> float:
    """Return the share of the honest reading that the correlation of s and y accounts for, between 0 and 1."""
    n, member = len(outputs), np.eye(len(secret.values))[secret.codes]
    truth = np.eye(len(outputs.y.values))[outputs.y.codes]
    in_truth, in_scores = (_between(member, answers) for answers in (truth, outputs.soft))
    shares = truth.mean(axis=0)
    chance = (len(secret.values) - 1) * float(1 - (shares**2).sum()) / n  # expected by chance if there is no difference
    return float(np.clip(2 - in_scores / max(in_truth - chance, 1e-12), 0.0, 1.0))


def _between(member: FloatArray, answers: FloatArray) -> float:
    """Return the squared distance of each value's mean answer from the overall mean, averaged over records."""
    means = (member.T @ answers) / member.sum(axis=0)[:, None]
    return float(member.mean(axis=0) @ ((means - answers.mean(axis=0)) ** 2).sum(axis=1))
