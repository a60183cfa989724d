"""The honest reading of a score: what a graded answer about y tells of an s that is correlated with y.

Symbols: r the probabilities of y's values, s the sensitive attribute. Where s and y are correlated, the best possible
classifier for y tells s by *how likely* it finds y, not only by ŷ: whoever takes r for what it claims to be infers
h_s(r) = Σ_k r_k·p(s | y = k). The honest reading is a posterior that is logistic in log h, with a level for each y and
one slope for all answers; a code that writes s around each prediction is not read by one slope across all of them.

How much of it is honest: an honest score averages, over the people of each s, to their share of each y (calibration in
groups; Kleinberg, Mullainathan and Raghavan 2017), so the values of s may differ in mean score as they differ in y. Let
Q be the squared difference in score over that in y: all of the reading is honest up to Q = 1, none from Q = 2 on. With
s independent of y none of it is. Guarantee: none; a model of what correlation explains.
"""

from __future__ import annotations

import numpy as np
from sklearn.linear_model import LogisticRegression

from fedveil.audit.outputs import FloatArray, Outputs
from fedveil.data.attribute import Attribute, IntArray
from fedveil.standardise import Standardiser

_FIRMNESS = 1.0
"""Imagined records of every s, for each value of y, when p(s | y) is counted."""

_MOST_STEPS = 200


def graded_posterior(outputs: Outputs, secret: Attribute, half: IntArray) -> FloatArray:
    """Return the honest reading of every record, (n, S), fitted on the half that it does not belong to."""
    found = np.empty((len(outputs), len(secret.values)))
    soft, unit = outputs.soft, np.eye(len(outputs.y.values))
    for side in (0, 1):
        own = half == side
        joint = np.full((len(outputs.y.values), len(secret.values)), _FIRMNESS)
        np.add.at(joint, (outputs.y.codes[own], secret.codes[own]), 1)
        inferred = np.log(soft @ (joint / joint.sum(axis=1, keepdims=True)))
        scale = Standardiser.fit(inferred[own])
        columns = np.hstack([unit[outputs.y.codes], scale.apply(inferred)])
        model = LogisticRegression(C=10.0, max_iter=_MOST_STEPS).fit(columns[own], secret.codes[own])
        found[~own] = model.predict_proba(columns[~own])
    return found


def weight(outputs: Outputs, secret: Attribute) -> float:
    """Return which part of the honest reading the correlation of s and y accounts for, between 0 and 1."""
    n, member = len(outputs), np.eye(len(secret.values))[secret.codes]
    truth = np.eye(len(outputs.y.values))[outputs.y.codes]
    in_truth, in_scores = (_between(member, answers) for answers in (truth, outputs.soft))
    shares = truth.mean(axis=0)
    chance = (len(secret.values) - 1) * float(1 - (shares**2).sum()) / n  # what counting alone makes of no difference
    return float(np.clip(2 - in_scores / max(in_truth - chance, 1e-12), 0.0, 1.0))


def _between(member: FloatArray, answers: FloatArray) -> float:
    """Return the squared distance of the values' mean answers from the mean of all, on average over records."""
    means = (member.T @ answers) / member.sum(axis=0)[:, None]
    return float(member.mean(axis=0) @ ((means - answers.mean(axis=0)) ** 2).sum(axis=1))
