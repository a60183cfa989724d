"""How far curiosity keeps a convex classifier from y's optimum: measured, beside two bounds that hold.

Malekzadeh, Borovykh and Gündüz, "Honest-but-Curious Nets", CCS 2021, Appendix A.2. Its last integral has slips: losses
stand in the exponents where rates belong ((14) holds, with half the rate that follows). With V = ½‖Θ_t − Θ*_y‖² and
dΘ = −∇(β_y·L_y + β_s·L_s) dt, strong convexity gives

    dV/dt ≤ −2·β_y·μ_y·V + β_s·(L_s(Θ*_y) − L_s(Θ_t) − μ_s·V),

    V_t ≤ e^{−κt}·V_0 + β_s·∫₀ᵗ e^{κ(u−t)}·(L_s(Θ*_y) − L_s(Θ_u)) du,    κ = 2·β_y·μ_y + β_s·μ_s,

and at rest ‖Θ_∞ − Θ*_y‖² ≤ 2·β_s·(L_s(Θ*_y) − L_s(Θ_∞)) / κ (`gap_bound`). Shorter, from ∇(β_y·L_y + β_s·L_s) at Θ*_y
being β_s·∇L_s(Θ*_y): ‖Θ_∞ − Θ*_y‖ ≤ β_s·‖∇L_s(Θ*_y)‖ / (β_y·μ_y + β_s·μ_s) (`gradient_bound`). Both vanish with β_s,
and where Θ*_y = Θ*_s.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedveil_papers.curious.convex import CuriousLogistic, RidgeLoss


@dataclass(frozen=True)
class Neighbourhood:
    """Where the training for both attributes ends, relative to y's own optimum.

    Attributes:
        distance: ‖Θ_∞ − Θ*_y‖, measured.
        gradient_bound: proven before training for s: needs Θ*_y and ∇L_s alone.
        gap_bound: the paper's argument without its slips; needs L_s at Θ_∞, too.
        lost: L_y(Θ_∞) − L_y(Θ*_y), what honesty's loss pays, in nats.
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
