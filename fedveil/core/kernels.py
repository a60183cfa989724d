"""How strongly vectors depend on an attribute, measured by kernels: HSIC, and MMD between the values' records.

Symbols: r a record's vector, u its value, φ the feature map of k, μ_v = E[φ(r) | u = v], μ = E φ(r), p_v = P(u = v).
k(r, r') = ⅓ Σ_s exp(−‖r − r'‖²/(s·m)), s ∈ {¼, 1, 4}, with m the batch's mean squared distance: there is no scale to
choose, and an encoder cannot lower a measure by shrinking r. Gradients treat m as a constant.

    HSIC = Σ_v p_v² ‖μ_v − μ‖²          (Gretton, Bousquet, Smola and Schölkopf 2005), with 1[u = u'] as the kernel of u
    MMD  = mean over pairs v < w of ‖μ_v − μ_w‖²        (Gretton, Borgwardt, Rasch, Schölkopf and Smola 2012)

Both are 0 exactly if r and u are independent, since k is characteristic; for two values HSIC = 2 p₀² p₁² · MMD.
This module computes unbiased estimates (HSIC's by Song, Smola, Gretton, Bedo and Borgwardt 2012), which can be below 0;
the biased estimates would reward an encoder that maps all records to the same r. Guarantee: none; a batch of n records
shows dependence only down to about 1/n.

All functions take one device's batch (batch, d) or a stack of devices (devices, batch, d), and return one number per
batch.
"""

from __future__ import annotations

import torch
from torch import Tensor

_SCALES = (0.25, 1.0, 4.0)


def gaussian_kernel(r: Tensor, counted: Tensor) -> Tensor:
    """Return k between all records of a batch, (…, batch, batch); 0 on the diagonal and for uncounted records."""
    squared_norms = r.square().sum(dim=-1)
    squared = (squared_norms.unsqueeze(-1) + squared_norms.unsqueeze(-2) - 2 * r @ r.transpose(-1, -2)).clamp_min(0)
    pairs = _pairs(counted, r)
    count = pairs.sum(dim=(-1, -2), keepdim=True).clamp_min(1)
    mean = (squared.detach() * pairs).sum(dim=(-1, -2), keepdim=True) / count
    squared = squared / mean.clamp_min(torch.finfo(r.dtype).tiny ** 0.5)
    return torch.stack([torch.exp(-squared / scale) for scale in _SCALES]).mean(dim=0) * pairs


def hsic(r: Tensor, codes: Tensor, counted: Tensor) -> Tensor:
    """Return the unbiased estimate of HSIC(r, u), (…,); 0 if fewer than four records count, or if u has one value.

    Args:
        r: (…, batch, d).
        codes: (…, batch), the values of u.
        counted: which records count: those with a value that are not padding.

    >>> r, all_count = torch.tensor([[0.0], [0.1], [5.0], [5.1]]), torch.ones(4) > 0
    >>> dependent, independent = (hsic(r, torch.tensor(u), all_count) for u in ([0, 0, 1, 1], [0, 1, 0, 1]))
    >>> bool(dependent > 0 > independent)
    True
    """
    k = gaussian_kernel(r, counted)
    same = (codes.unsqueeze(-1) == codes.unsqueeze(-2)).to(r.dtype) * _pairs(counted, r)
    n = counted.sum(dim=-1).to(r.dtype)
    divisor = n.clamp_min(4)
    joint = (k * same).sum(dim=(-1, -2))
    product = k.sum(dim=(-1, -2)) * same.sum(dim=(-1, -2)) / ((divisor - 1) * (divisor - 2))
    mixed = 2 * (k.sum(dim=-1) * same.sum(dim=-1)).sum(dim=-1) / (divisor - 2)
    return torch.where(n >= 4, (joint + product - mixed) / (divisor * (divisor - 3)), 0)


def mmd(r: Tensor, codes: Tensor, counted: Tensor, values: int) -> Tensor:
    """Return the unbiased estimate of the mean squared MMD over pairs of values, (…,).

    A value with fewer than two records is in no pair; the result is 0 if there is no pair.
    """
    k = gaussian_kernel(r, counted)
    members = (codes.unsqueeze(-1) == torch.arange(values, device=r.device)).to(r.dtype) * counted.unsqueeze(-1)
    count = members.sum(dim=-2)
    sums = members.transpose(-1, -2) @ k @ members
    within = sums.diagonal(dim1=-2, dim2=-1) / (count * (count - 1)).clamp_min(1)
    between = sums / (count.unsqueeze(-1) * count.unsqueeze(-2)).clamp_min(1)
    squared = within.unsqueeze(-1) + within.unsqueeze(-2) - 2 * between
    pairs = _pairs(count >= 2, r)
    return (squared * pairs).sum(dim=(-1, -2)) / pairs.sum(dim=(-1, -2)).clamp_min(1)


def _pairs(chosen: Tensor, like: Tensor) -> Tensor:
    """Return 1 for every pair of different chosen items, else 0."""
    both = chosen.unsqueeze(-1) & chosen.unsqueeze(-2)
    return (both & ~torch.eye(chosen.shape[-1], dtype=torch.bool, device=chosen.device)).to(like.dtype)
