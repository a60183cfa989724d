"""Noise shaped by what readers are sensitive to: where a little of it takes most of their information away."""

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
"""How many directions noise has at most."""

_LARGE = 1024
"""Where there are more columns than this, so many rows stand for all."""


def between_means(sides: Sides, read: Read, attributes: Sequence[IntArray]) -> Tensor:
    """Return (D, r) factors of noise along the differences between the values' means: blind to all but means."""
    columns = []
    for codes in attributes:
        known = torch.from_numpy(codes)
        means = torch.stack([read.values[known == code].mean(dim=0) for code in np.unique(codes)])
        columns.append((means - means.mean(dim=0)).T)
    return _factors(sides, read, torch.cat(columns, dim=1))


def shaped(sides: Sides, read: Read, attributes: Sequence[IntArray], relative: float, times: int, seed: int) -> Tensor:
    """Return (D, r) factors F of noise F·z, z standard normal, shaped against readers that are fitted again and again.

    The information that v + n has about u falls with the covariance N of n by ½·E[s sᵀ], where
    s = ∇ log p(u | v + n) (Palomar and Verdú 2006). So readers p are fitted on v with the noise so far, at the norm
    that it shall have, and N moves towards their mean s sᵀ, in units in which all motions cost the same: Frank and
    Wolfe's steps 1/(k + 1). After one time N is what readers of clean updates are sensitive to; further times meet
    those who know the noise. Estimates, not bounds: what no reader here finds stays.
    """
    units = _units(sides, read)
    generator = torch_generator(seed, "shaped noise")
    half = numpy_generator(seed, "readers' halves").permutation(len(read.norms))
    held, learned = half[: len(half) // 5], half[len(half) // 5 :]
    total: Tensor | None = None
    for time in range(times):
        values = read.values
        if total is not None:
            factors = total * units[:, None]
            values = values + drawn(sides, read, factors, relative, _normal(len(values), factors, generator))
        rows = []
        for place, codes in enumerate(attributes):
            own = child_seed(seed, "reader", time, place)
            rows.append(_sensitivity(values, codes, learned, held, own) * units)
        s = torch.cat(rows)
        if s.shape[1] > _LARGE:  # a sample of rows tells the leading directions, and costs far less
            s = s[torch.randperm(len(s), generator=generator)[:_LARGE]]
        s = s / torch.linalg.matrix_norm(s)  # tr(s sᵀ) = 1
        step = 1 / (time + 1)
        both = s if total is None else torch.cat([(1 - step) ** 0.5 * total.T, step**0.5 * s])
        total = _leading(both)
    assert total is not None
    return total * units[:, None]


def drawn(sides: Sides, read: Read, factors: Tensor, relative: Tensor | float, z: Tensor) -> Tensor:
    """Return (n, D) noise F·z, scaled for each update so that its change has this root mean square share of its norm.

    The scale follows from public shape and from the update's own norms, and no value of an attribute.
    """
    per_side = torch.stack([part.square().sum() for part in torch.split(factors, _widths(sides))])
    expected = (sides.prices(read) * per_side.to(read.values)).sum(dim=1)
    scale = torch.where(expected > 0, relative / torch.where(expected > 0, expected, 1.0).sqrt(), 0.0)
    return scale[:, None] * (z.to(read.values) @ factors.T.to(read.values))


def _sensitivity(values: Tensor, codes: IntArray, learned: IntArray, held: IntArray, seed: int) -> Tensor:
    """Return (m, D) rows whose mean outer product is E[s sᵀ] of a reader fitted on these."""
    mean, scale = values.mean(dim=0), values.std(dim=0)
    scale = torch.where(scale > 1e-6, scale, torch.inf)  # a column that nothing moves tells nothing
    x = (values - mean) / scale
    present, places = np.unique(codes, return_inverse=True)
    array = x.numpy()
    recipe = Recipe(hidden=(256, 128), most_epochs=6, patience=2)
    train, stop = ((array[rows], places[rows]) for rows in (learned, held))
    reader = fit_network(train, stop, len(present), recipe, even=True, seed=seed, device="cpu")
    rows = []
    with torch.enable_grad():
        for part in torch.split(x, 4096):
            point = part.clone().requires_grad_(True)
            said = reader(point).log_softmax(dim=1)
            for code in range(len(present)):
                (slope,) = torch.autograd.grad(said[:, code].sum(), point, retain_graph=True)
                rows.append(slope * said[:, code : code + 1].detach().exp().sqrt() / scale)
    return torch.cat(rows) / math.sqrt(len(x))


def _factors(sides: Sides, read: Read, columns: Tensor) -> Tensor:
    """Return as factors what columns span, each direction as large as its column, in units of equal cost."""
    units = _units(sides, read)
    u, sizes, _ = torch.linalg.svd(columns / units[:, None], full_matrices=False)
    found: Tensor = (u * sizes)[:, :DIRECTIONS] * units[:, None]
    return found


def _leading(rows: Tensor) -> Tensor:
    """Return (D, r) leading factors of rowsᵀ·rows, by whichever Gram matrix is smaller."""
    exact = rows.double()
    if len(exact) >= exact.shape[1]:
        sizes, directions = torch.linalg.eigh(exact.T @ exact)
        found = directions * sizes.clamp_min(0).sqrt()
    else:
        _, sides = torch.linalg.eigh(exact @ exact.T)
        found = exact.T @ sides  # each column is √eigenvalue · direction
    kept: Tensor = found.flip(1)[:, :DIRECTIONS].to(rows)
    return kept


def _units(sides: Sides, read: Read) -> Tensor:
    """Return (D,) how far each column moves for a unit of cost."""
    return sides.spread(sides.prices(read).mean(dim=0).clamp_min(1e-12).rsqrt())


def _widths(sides: Sides) -> list[int]:
    return [own.stop - own.start for layer in sides.layers for own in (layer.inputs, layer.slopes)]


def _normal(rows: int, factors: Tensor, generator: torch.Generator) -> Tensor:
    return torch.randn(rows, factors.shape[1], generator=generator)
