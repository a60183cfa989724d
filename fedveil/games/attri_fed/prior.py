"""Learned priors over representations, factorised or joint: what numbers cost in bits."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from fedveil.core.errors import InputError
from fedveil.games.attri_fed.code import MOST_CELLS

_LEAST = 1e-9
"""The least probability of a number, so that the loss stays finite (30 bits)."""


class FactorisedPrior(nn.Module):
    """q(ŷ) = Π_j q_j(ŷ_j), each q_j a mixture of logistic laws, integrated over the unit interval around ŷ_j.

    In training ŷ carries uniform noise in [−½, ½), and −log₂ q(ŷ) is the rate of its rounding up to the noise (Ballé,
    Laparra and Simoncelli 2017); at release ŷ is rounded, and q gives each whole number its probability. A mixture
    replaces Ballé et al.'s monotone network: it is as flexible in one dimension, and its tails are known.
    """

    def __init__(self, width: int, components: int = 3) -> None:
        super().__init__()
        spread = torch.linspace(-2.0, 2.0, components) if components > 1 else torch.zeros(1)
        self.centres = nn.Parameter(spread.repeat(width, 1))
        self.log_scales = nn.Parameter(torch.full((width, components), math.log(0.7)))
        self.weights = nn.Parameter(torch.zeros(width, components))

    def probabilities(self, values: Tensor) -> Tensor:
        """Return q_j of every number: the mass of the unit interval around it."""
        scales = self.log_scales.clamp(-4.0, 6.0).exp()
        distances = values.unsqueeze(-1) - self.centres
        # Only the smaller of the two tails is exact in single precision: mirror what lies above the centre.
        sign = torch.where(distances > 0, -1.0, 1.0).to(values.dtype)
        upper, lower = ((sign * distances + half) / scales for half in (0.5, -0.5))
        mass = (torch.sigmoid(upper) - torch.sigmoid(lower)).clamp_min(0)
        return (mass * functional.softmax(self.weights, dim=-1)).sum(dim=-1)

    def forward(self, values: Tensor) -> Tensor:
        """Return the bits of every number, in the shape of the numbers."""
        return -torch.log2(self.probabilities(values).clamp_min(_LEAST))


def all_cells(width: int, reach: int) -> Tensor:
    """Return every ŷ of d numbers in −reach … reach: (cells, d).

    >>> all_cells(1, 1).T
    tensor([[-1.,  0.,  1.]])
    """
    levels = 2 * reach + 1
    if levels**width > MOST_CELLS:
        raise InputError(
            f"{width} numbers of {levels} levels make more than {MOST_CELLS} cells; send fewer, or leave out a joint "
            "prior and rounding by rate"
        )
    index = torch.arange(levels**width).unsqueeze(-1)
    return (index // levels ** torch.arange(width) % levels - reach).float()


class JointPrior(nn.Module):
    """q(ŷ), one probability for each of the (2·reach + 1)^d cells: numbers that depend on each other cost less.

    Between cells the bits are interpolated linearly in every dimension. For a whole number plus uniform noise this is
    the mean cost of rounding, and its slope points to the likelier of two cells.
    """

    def __init__(self, width: int, reach: int) -> None:
        super().__init__()
        self.width, self.reach = width, reach
        self.scores = nn.Parameter(torch.zeros(len(all_cells(width, reach))))

    def forward(self, values: Tensor) -> Tensor:
        """Return the bits of every record, as one column."""
        # The logits learn ten times as fast as other weights: they are few, and must follow the encoder.
        bits = -functional.log_softmax(10.0 * self.scores, dim=0) / math.log(2)
        levels = values.clamp(-self.reach, self.reach) + self.reach
        first = levels.detach().floor().clamp_max(2 * self.reach - 1)
        share = (levels - first).unsqueeze(-2)
        dimensions = torch.arange(self.width, device=values.device)
        corners = torch.arange(2**self.width, device=values.device).unsqueeze(-1) // 2**dimensions % 2
        weights = torch.where(corners == 1, share, 1 - share).prod(dim=-1)
        cells = ((first.long().unsqueeze(-2) + corners) * (2 * self.reach + 1) ** dimensions).sum(dim=-1)
        return (weights * bits[cells]).sum(dim=-1, keepdim=True)
