"""The convex case: one logistic regression for both y and s, and how far that moves it from y's optimum.

Malekzadeh, Borovykh and Gündüz, "Honest-but-Curious Nets", CCS 2021, §3.1 and Appendix A. Symbols: Θ the M weights and
the bias, ŷ = σ(Θᵀ[x, 1]), β_y + β_s = 1, and with z = β_y·y + β_s·s

    β_y·L_y + β_s·L_s = mean of −z log ŷ − (1 − z) log(1 − ŷ) + (λ/2)‖Θ‖²,

convex in Θ; the penalty, on all of Θ, makes each of L_y and L_s λ-strongly convex.

The distance from y's optimum is Appendix A.2. Its last integral has slips: losses stand in the exponents where rates
belong ((14) holds, with half the rate that follows). With V = ½‖Θ_t − Θ*_y‖² and dΘ = −∇(β_y·L_y + β_s·L_s) dt, strong
convexity gives

    dV/dt ≤ −2·β_y·μ_y·V + β_s·(L_s(Θ*_y) − L_s(Θ_t) − μ_s·V),

    V_t ≤ e^{−κt}·V_0 + β_s·∫₀ᵗ e^{κ(u−t)}·(L_s(Θ*_y) − L_s(Θ_u)) du,    κ = 2·β_y·μ_y + β_s·μ_s,

and at rest ‖Θ_∞ − Θ*_y‖² ≤ 2·β_s·(L_s(Θ*_y) − L_s(Θ_∞)) / κ (`Neighbourhood.gap_bound`). A shorter argument, since
∇(β_y·L_y + β_s·L_s) at Θ*_y is β_s·∇L_s(Θ*_y): ‖Θ_∞ − Θ*_y‖ ≤ β_s·‖∇L_s(Θ*_y)‖ / (β_y·μ_y + β_s·μ_s)
(`Neighbourhood.gradient_bound`). Both bounds vanish with β_s, and where Θ*_y = Θ*_s.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from fedveil.core.arrays import FloatArray
from fedveil.core.errors import InputError


@dataclass(frozen=True, eq=False)
class RidgeLoss:
    """The mean logistic loss of aims in [0, 1], with a penalty (λ/2)‖Θ‖² on all of Θ."""

    inputs: FloatArray
    aims: FloatArray
    penalty: float

    @classmethod
    def of(cls, x: npt.ArrayLike, aims: npt.ArrayLike, penalty: float) -> RidgeLoss:
        """Check records, aims and penalty, and append a column of ones to x."""
        rows, wanted = np.asarray(x, dtype=np.float64), np.asarray(aims, dtype=np.float64)
        if rows.ndim != 2 or wanted.shape != (len(rows),) or not len(rows):
            raise InputError(f"convex case: x must be (n, M) and aims (n,), got {rows.shape} and {wanted.shape}")
        if not (np.isfinite(rows).all() and ((wanted >= 0) & (wanted <= 1)).all()):
            raise InputError("convex case: x must be finite and all aims must lie in [0, 1]; check the arguments")
        if not penalty > 0:
            raise InputError(f"convex case: penalty must be above 0, got {penalty}: separable data has no optimum at 0")
        return cls(np.column_stack([rows, np.ones(len(rows))]), wanted, float(penalty))

    def value(self, theta: FloatArray) -> float:
        """L(Θ), in nats."""
        scores = self.inputs @ theta
        return float(np.mean(np.logaddexp(0, scores) - self.aims * scores) + self.penalty / 2 * theta @ theta)

    def gradient(self, theta: FloatArray) -> FloatArray:
        """∇L(Θ)."""
        residual = expit(self.inputs @ theta) - self.aims
        return np.asarray(self.inputs.T @ residual / len(self.aims) + self.penalty * theta)

    def minimum(self) -> FloatArray:
        """Return Θ* by Newton's method with halved steps; the loss is strongly convex, so there is exactly one."""
        theta = np.zeros(self.inputs.shape[1])
        for _ in range(200):
            gradient = self.gradient(theta)
            if np.linalg.norm(gradient) < 1e-12:
                break
            chances = expit(self.inputs @ theta)
            hessian = (self.inputs.T * (chances * (1 - chances))) @ self.inputs / len(self.aims)
            step = np.linalg.solve(hessian + self.penalty * np.eye(len(theta)), gradient)
            size, current = 1.0, self.value(theta)
            while self.value(theta - size * step) > current and size > 1e-6:
                size /= 2
            theta = theta - size * step
        return theta


@dataclass(frozen=True, eq=False)
class CuriousLogistic:
    """A logistic regression for y that was also trained for s; its output is one number in [0, 1].

    Guarantee for one shared threshold, of any classifier b(x) ∈ {0, 1}: P(b = y) + P(b = s) = 2 P(b = y = s) +
    P(y ≠ s) ≤ 1 + P(y = s), which is 1.5 if y and s are balanced and independent. Equality holds if b is right
    whenever y = s, as is every line through the middle of Figure 2 that separates (0, 0) from (1, 1).
    The output itself is a number, not a bit: several intervals of it reveal more (`fedveil_papers.curious.intervals`).
    """

    theta: FloatArray

    @classmethod
    def fit(
        cls, x: npt.ArrayLike, y: npt.ArrayLike, s: npt.ArrayLike, *, beta_s: float, penalty: float
    ) -> CuriousLogistic:
        """Minimise (1 − β_s)·L_y + β_s·L_s for codes 0 and 1 of both; β_s = 0 is the standard classifier."""
        if not 0 <= beta_s <= 1:
            raise InputError(f"convex case: beta_s must lie in [0, 1], got {beta_s}")
        aims = (1 - beta_s) * np.asarray(y, dtype=np.float64) + beta_s * np.asarray(s, dtype=np.float64)
        return cls(RidgeLoss.of(x, aims, penalty).minimum())

    def raw(self, x: npt.ArrayLike) -> FloatArray:
        """Θᵀ[x, 1], the argument of the sigmoid; the same information as ŷ."""
        return np.asarray(np.asarray(x, dtype=np.float64) @ self.theta[:-1] + self.theta[-1], dtype=np.float64)

    def soft(self, x: npt.ArrayLike) -> FloatArray:
        """ŷ, the probability of y = 1 as the classifier states it."""
        return np.asarray(expit(self.raw(x)), dtype=np.float64)


@dataclass(frozen=True)
class Neighbourhood:
    """Where training for both attributes ends, relative to y's optimum.

    Attributes:
        distance: ‖Θ_∞ − Θ*_y‖, measured.
        gradient_bound: needs Θ*_y and ∇L_s only, so it is known before training for s.
        gap_bound: the paper's argument without its slips; needs L_s at Θ_∞ as well.
        lost: L_y(Θ_∞) − L_y(Θ*_y), in nats.
    """

    distance: float
    gradient_bound: float
    gap_bound: float
    lost: float


def neighbourhood(
    x: npt.ArrayLike, y: npt.ArrayLike, s: npt.ArrayLike, *, beta_s: float, penalty: float
) -> Neighbourhood:
    """Train for y alone and for both, on the same records, with ridge penalty λ = μ_y = μ_s."""
    both = CuriousLogistic.fit(x, y, s, beta_s=beta_s, penalty=penalty).theta
    loss_y, loss_s = RidgeLoss.of(x, y, penalty), RidgeLoss.of(x, s, penalty)
    alone = loss_y.minimum()
    gap = loss_s.value(alone) - loss_s.value(both)
    rate = 2 * (1 - beta_s) * penalty + beta_s * penalty
    return Neighbourhood(
        distance=float(np.linalg.norm(both - alone)),
        gradient_bound=beta_s * float(np.linalg.norm(loss_s.gradient(alone))) / penalty,
        gap_bound=float(np.sqrt(max(0.0, 2 * beta_s * gap / rate))),
        lost=loss_y.value(both) - loss_y.value(alone),
    )
