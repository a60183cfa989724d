"""Noise shaped by what readers are sensitive to, so that little noise removes most of their information."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from fedveil.core.arrays import IntArray
from fedveil.core.learning import Recipe, fit_network
from fedveil.core.randomness import child_seed, numpy_generator, torch_generator
from fedveil.shields.unread.sides import Read, Sides

DIRECTIONS = 64
"""The most directions of the noise."""

_LARGE = 1024
"""If there are more columns than this, a random sample of this many rows is used."""


def between_means(sides: Sides, read: Read, attributes: Sequence[IntArray]) -> Tensor:
    """Return (D, r) factors of noise along the differences between the values' means; only means are considered."""
    columns = []
    for codes in attributes:
        by_row = torch.from_numpy(codes)
        means = torch.stack([read.values[by_row == code].mean(dim=0) for code in np.unique(codes)])
        columns.append((means - means.mean(dim=0)).T)
    return _factors(sides, read, torch.cat(columns, dim=1))


def shaped(sides: Sides, read: Read, attributes: Sequence[IntArray], relative: float, times: int, seed: int) -> Tensor:
    """Return (D, r) factors F of noise F·z, z standard normal, shaped against readers that are fitted repeatedly.

    The gradient of the information that v + n has about u, with respect to the covariance N of n, is −½·E[s sᵀ] with
    s = ∇ log p(u | v + n) (Palomar and Verdú 2006). So readers p are fitted on v with the noise so far, scaled to its
    final norm, and N moves towards their mean s sᵀ, in units in which all motions cost the same, by Frank and Wolfe's
    steps 1/(k + 1). After the first fit, N is what readers of clean updates are sensitive to; later fits account for
    readers who know the noise. These are estimates, not bounds: what no reader here finds is not removed.
    """
    units = _units(sides, read)
    generator = torch_generator(seed, "shaped noise")
    order = numpy_generator(seed, "readers' halves").permutation(len(read.norms))
    validation, training = order[: len(order) // 5], order[len(order) // 5 :]
    total: Tensor | None = None
    for fit in range(times):
        values = read.values
        if total is not None:
            factors = total * units[:, None]
            values = values + drawn(sides, read, factors, relative, _normal(len(values), factors, generator))
        rows = []
        for index, codes in enumerate(attributes):
            reader_seed = child_seed(seed, "reader", fit, index)
            rows.append(_sensitivity(values, codes, training, validation, reader_seed) * units)
        s = torch.cat(rows)
        if s.shape[1] > _LARGE:  # a sample of rows gives the leading directions at far less cost
            s = s[torch.randperm(len(s), generator=generator)[:_LARGE]]
        s = s / torch.linalg.matrix_norm(s)  # tr(s sᵀ) = 1
        step = 1 / (fit + 1)
        both = s if total is None else torch.cat([(1 - step) ** 0.5 * total.T, step**0.5 * s])
        total = _leading(both)
    assert total is not None
    return total * units[:, None]


def drawn(sides: Sides, read: Read, factors: Tensor, relative: Tensor | float, z: Tensor) -> Tensor:
    """Return (n, D) noise F·z, scaled so that the root mean square of an update's change is this share of its norm.

    The scale depends on the public shape and on the update's norms, but on no value of an attribute.
    """
    per_side = torch.stack([part.square().sum() for part in torch.split(factors, sides.widths)])
    expected = (sides.prices(read) * per_side.to(read.values)).sum(dim=1)
    scale = torch.where(expected > 0, relative / torch.where(expected > 0, expected, 1.0).sqrt(), 0.0)
    return scale[:, None] * (z.to(read.values) @ factors.T.to(read.values))


def _sensitivity(values: Tensor, codes: IntArray, training: IntArray, validation: IntArray, seed: int) -> Tensor:
    """Return (m, D) rows whose mean outer product is E[s sᵀ] of a reader fitted on these."""
    mean, scale = values.mean(dim=0), values.std(dim=0)
    scale = torch.where(scale > 1e-6, scale, torch.inf)  # a constant column reveals nothing
    x = (values - mean) / scale
    present, indices = np.unique(codes, return_inverse=True)
    array = x.numpy()
    recipe = Recipe(hidden=(256, 128), most_epochs=6, patience=2)
    train, stop = ((array[rows], indices[rows]) for rows in (training, validation))
    reader = fit_network(train, stop, len(present), recipe, even=True, seed=seed, device="cpu")
    rows = []
    with torch.enable_grad():
        for part in torch.split(x, 4096):
            point = part.clone().requires_grad_(True)
            log_chances = reader(point).log_softmax(dim=1)
            for code in range(len(present)):
                (slope,) = torch.autograd.grad(log_chances[:, code].sum(), point, retain_graph=True)
                rows.append(slope * log_chances[:, code : code + 1].detach().exp().sqrt() / scale)
    return torch.cat(rows) / math.sqrt(len(x))


def _factors(sides: Sides, read: Read, columns: Tensor) -> Tensor:
    """Return the space that columns span as factors, each direction with its singular value, in units of equal cost."""
    units = _units(sides, read)
    u, sizes, _ = torch.linalg.svd(columns / units[:, None], full_matrices=False)
    factors: Tensor = (u * sizes)[:, :DIRECTIONS] * units[:, None]
    return factors


def _leading(rows: Tensor) -> Tensor:
    """Return (D, r) leading factors of rowsᵀ·rows, by whichever Gram matrix is smaller."""
    exact = rows.double()
    if len(exact) >= exact.shape[1]:
        sizes, directions = torch.linalg.eigh(exact.T @ exact)
        factors = directions * sizes.clamp_min(0).sqrt()
    else:
        _, left = torch.linalg.eigh(exact @ exact.T)
        factors = exact.T @ left  # each column is √eigenvalue · direction
    leading: Tensor = factors.flip(1)[:, :DIRECTIONS].to(rows)
    return leading


def _units(sides: Sides, read: Read) -> Tensor:
    """Return (D,) how far each column moves at unit cost."""
    return sides.spread(sides.prices(read).mean(dim=0).clamp_min(1e-12).rsqrt())


def _normal(rows: int, factors: Tensor, generator: torch.Generator) -> Tensor:
    return torch.randn(rows, factors.shape[1], generator=generator)
