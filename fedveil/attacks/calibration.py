"""Turn an attacker's scores into a posterior, and into its two best decisions, on validation data.

One scale and one shift per class (vector scaling) are fitted by maximum likelihood on validation:
once with the classes weighted evenly, which sets the decision for balanced accuracy, and once as
they come, which sets the decision for plain accuracy and the posterior behind the information.
A weak prior holds both fits near the scores as they are where validation is small.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax

from fedveil.core.arrays import FloatArray, IntArray

_SCALE_FIRMNESS = 0.05
"""How firmly the prior holds the scale: a timid attacker who is always right must be free to become certain."""


@dataclass(frozen=True, eq=False)
class Calibration:
    """log p(u | r) ∝ scale · (score_u − centre_u) + shift_u."""

    scale: float
    shift: FloatArray
    centre: FloatArray

    def log_posterior(self, scores: FloatArray) -> FloatArray:
        """Return calibrated log-probabilities (natural logarithm)."""
        return np.asarray(log_softmax(self.scale * (scores - self.centre) + self.shift, axis=1), dtype=np.float64)

    @classmethod
    def fit(cls, scores: FloatArray, codes: IntArray, weights: FloatArray, start: FloatArray) -> Calibration:
        """Maximise the weighted likelihood of the codes; `start` is the shift the prior pulls towards."""
        n, classes = scores.shape
        centre = scores.mean(axis=0)  # scores of any offset are welcome: "any score that grows with belief"
        scores = scores - centre
        spread = float(scores.std()) or 1.0
        one_hot = np.eye(classes)[codes]
        weights = weights * (n / weights.sum())

        def loss(parameters: FloatArray) -> tuple[float, FloatArray]:
            log_scale, shift = parameters[0], parameters[1:]
            scaled = np.exp(log_scale) * scores / spread
            log_p = log_softmax(scaled + shift, axis=1)
            error = weights[:, None] * (np.exp(log_p) - one_hot)
            pull = firmness * (parameters - origin)
            value = -float((weights * log_p[np.arange(n), codes]).sum()) + 0.5 * float(pull @ (parameters - origin))
            slope = np.concatenate([[float((error * scaled).sum())], error.sum(axis=0)]) + pull
            return value / n, slope / n

        origin = np.concatenate([[np.log(spread)], start])
        firmness = np.array([_SCALE_FIRMNESS] + [1.0] * classes)
        bounds = [(np.log(spread) - 10, np.log(spread) + 10)] + [(-20.0, 20.0)] * classes
        found = minimize(loss, origin, jac=True, method="L-BFGS-B", bounds=bounds)
        return cls(float(np.exp(found.x[0]) / spread), np.asarray(found.x[1:], dtype=np.float64), centre)


def calibrate(scores: FloatArray, codes: IntArray, prior: FloatArray) -> tuple[Calibration, Calibration]:
    """Return the even-handed calibration (for balanced decisions) and the natural one (for all else)."""
    classes = scores.shape[1]
    even = 1.0 / (classes * np.bincount(codes, minlength=classes))[codes]
    balanced = Calibration.fit(scores, codes, even, np.zeros(classes))
    natural = Calibration.fit(scores, codes, np.ones(len(codes)), np.log(prior))
    return balanced, natural
