"""The regularised attack's G: a threshold on an output's entropy."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def best_threshold(entropies: Tensor, codes: Tensor, classes: int) -> float:
    """Return the τ in [0, log Y] by which "s = 1 where H(ŷ) > τ" is right most often; records without s do not count.

    Candidates lie halfway between neighbouring entropies, and at both ends. The paper searches [0, 1] alone, which
    does not cover [0, log Y] for Y ≥ 3.

    >>> best_threshold(torch.tensor([0.1, 0.2, 0.9, 1.0]), torch.tensor([0, 0, 1, 1]), 3)
    0.5499...
    """
    known = codes >= 0
    held, own = entropies[known].double(), codes[known]
    order = held.argsort()
    held, own = held[order], own[order]
    if not len(held):
        return math.log(classes) / 2
    # With i entropies at or below τ, right are the zeros among them and the ones above.
    zeros = torch.cat([own.new_zeros(1), (own == 0).cumsum(0)])
    ones_above = (own == 1).sum() - torch.cat([own.new_zeros(1), (own == 1).cumsum(0)])
    right = zeros + ones_above
    # A hair below 0, so that "everybody is 1" stays possible where some entropies are 0.
    ends = held.new_tensor([-1e-9]), held.new_tensor([math.log(classes)])
    edges = torch.cat([ends[0].minimum(held[:1]), held, ends[1].maximum(held[-1:])])
    apart = edges[1:] > edges[:-1]  # a threshold cannot part equal entropies
    apart[0] = apart[-1] = True
    best = int(torch.where(apart, right, -torch.ones_like(right)).argmax())
    return float((edges[best] + edges[best + 1]) / 2)
