"""The features' own scale and leading directions, on which members learn."""

from __future__ import annotations

import torch
from torch import Tensor

from fedveil.core.randomness import child_seed

_FAINT = 1e-3
"""A feature's scale is at least this share of the median one: a dead unit's faint trace must not be blown up."""


def columns_that_vary(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return which features vary, and the mean and the scale of each; the scale of one that never varies is 1."""
    mean = x.double().mean(dim=0)
    deviation = x.double().std(dim=0, correction=0)
    varies = deviation > 1e-6 * mean.abs()  # what rounding makes of a constant is no signal
    scale = torch.ones_like(deviation)
    if bool(varies.any()):
        scale[varies] = deviation[varies].clamp_min(_FAINT * float(deviation[varies].median()))
    return varies, mean.to(x.dtype), scale.to(x.dtype)


def leading_directions(x: Tensor, varies: Tensor, count: int, seed: int) -> Tensor | None:
    """Return (f, count) orthonormal directions in which standardised features vary most; None where f is no more.

    By random projection with two power iterations (Halko, Martinsson and Tropp 2011).
    """
    count = min(count, len(x))
    if int(varies.sum()) <= count:
        return None
    x = torch.where(varies, x, torch.zeros_like(x))
    with torch.random.fork_rng(devices=[]):  # svd_lowrank takes no generator, and must leave no trace
        torch.manual_seed(child_seed(seed, "zoo's directions") % 2**63)
        basis: Tensor = torch.svd_lowrank(x, q=count, niter=2)[2]
    return basis.contiguous()
