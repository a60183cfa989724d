"""A learned factorised prior over representations: what a number costs in bits."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

_LEAST = 1e-9
"""No number is thought less likely than this, so that the loss stays finite (30 bits)."""


class FactorisedPrior(nn.Module):
    """q(ŷ) = Π_j q_j(ŷ_j), each q_j a mixture of logistic laws, integrated over the unit interval around ŷ_j.

    In training ŷ carries uniform noise in [−½, ½), and −log₂ q(ŷ) is the rate of its rounding up to the noise (Ballé,
    Laparra and Simoncelli 2017); at release ŷ is rounded, and q gives each whole number its probability. A mixture
    takes the place of Ballé et al.'s monotone network: as flexible in one dimension, and its tails are known.
    """

    def __init__(self, width: int, components: int = 3) -> None:
        super().__init__()
        spread = torch.linspace(-2.0, 2.0, components) if components > 1 else torch.zeros(1)
        self.centres = nn.Parameter(spread.repeat(width, 1))
        self.log_scales = nn.Parameter(torch.full((width, components), math.log(0.7)))
        self.weights = nn.Parameter(torch.zeros(width, components))

    def probabilities(self, values: Tensor) -> Tensor:
        """Return q_j of every number, the mass of the unit interval around it."""
        scales = self.log_scales.clamp(-4.0, 6.0).exp()
        away = values.unsqueeze(-1) - self.centres
        # Of two tails the smaller one is exact in single precision: mirror what lies above the centre.
        sign = torch.where(away > 0, -1.0, 1.0).to(values.dtype)
        upper, lower = ((sign * away + half) / scales for half in (0.5, -0.5))
        mass = (torch.sigmoid(upper) - torch.sigmoid(lower)).clamp_min(0)
        return (mass * functional.softmax(self.weights, dim=-1)).sum(dim=-1)

    def forward(self, values: Tensor) -> Tensor:
        """Return every number's bits, shaped as the numbers are."""
        return -torch.log2(self.probabilities(values).clamp_min(_LEAST))
