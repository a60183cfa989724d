"""Linear concept erasure: maps that remove what linear readers read, by LEACE or iterative null space."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from fedveil.core.arrays import IntArray
from fedveil.core.errors import InputError

Erasure = Literal["leace", "inlp"]

_FAINT = 1e-6
"""Directions whose variance is below this share of the largest are treated as constant."""


@dataclass(frozen=True, eq=False)
class Eraser:
    """x ↦ x − L(Rᵀ(x − m)), with m the mean, (d,), and L and R of few columns, (d, k)."""

    mean: Tensor
    left: Tensor
    right: Tensor

    def motion(self, x: Tensor) -> Tensor:
        """Return what is added to each row."""
        return -((x - self.mean) @ self.right) @ self.left.T


def leace(x: Tensor, attributes: Sequence[IntArray]) -> Eraser:
    """Return LEACE's eraser (Belrose et al. 2023): r(x) = x − W⁺ P W (x − E x).

    W = Σ^{-1/2} whitens x, and P projects onto the columns of W Σ_xz, where z holds the indicators of all attributes.
    Guarantee, on the rows fitted: all values have the same mean, so no linear reader beats a constant; and no other
    such map moves x less in mean square. It does not stop readers that are not linear.
    """
    rows, z = x.double(), torch.cat([_indicators(codes, x) for codes in attributes], dim=1)
    mean = rows.mean(dim=0)
    centred, spread = rows - mean, z - z.mean(dim=0)
    eigenvalues, vectors = torch.linalg.eigh(centred.T @ centred / len(rows))
    varying = eigenvalues > _FAINT * eigenvalues[-1].clamp_min(1e-300)
    roots, vectors = eigenvalues[varying].sqrt(), vectors[:, varying]
    whitened = (vectors / roots).T @ (centred.T @ spread / len(rows))
    basis = _column_space(whitened)
    return Eraser(mean.to(x), ((vectors * roots) @ basis).to(x), ((vectors / roots) @ basis).to(x))


def inlp(x: Tensor, attributes: Sequence[IntArray], times: int = 8) -> Eraser:
    """Return iterative null-space projection (Ravfogel et al. 2020): drop a linear reader's directions, fit again.

    The readers are logistic regressions on standardised columns with every value weighted equally. Guarantee: none
    beyond what the last reader shows; unlike LEACE it removes more directions than those in which the means differ.
    """
    from sklearn.linear_model import LogisticRegression

    if times < 1:
        raise InputError(f"unread: inlp needs at least one reader; got {times}")
    mean, scale = x.double().mean(dim=0), x.double().std(dim=0)
    standard = (x.double() - mean) / torch.where(scale > 1e-9, scale, 1.0)
    dropped = standard.new_zeros(x.shape[1], 0)
    for codes in [codes for _ in range(times) for codes in attributes]:
        remaining = standard - (standard @ dropped) @ dropped.T
        reader = LogisticRegression(C=0.1, class_weight="balanced", max_iter=50, tol=1e-3).fit(remaining.numpy(), codes)
        directions = torch.from_numpy(np.atleast_2d(reader.coef_).T.copy())
        new = _column_space(directions - dropped @ (dropped.T @ directions))
        if not new.shape[1] or dropped.shape[1] + new.shape[1] > x.shape[1]:
            break
        dropped = torch.linalg.qr(torch.cat([dropped, new], dim=1)).Q
    used = torch.where(scale > 1e-9, scale, 1.0)[:, None]
    return Eraser(mean.to(x), (dropped * used).to(x), (dropped / used).to(x))


def _indicators(codes: IntArray, like: Tensor) -> Tensor:
    present, indices = np.unique(codes, return_inverse=True)
    return torch.eye(len(present), dtype=torch.float64, device=like.device)[torch.from_numpy(indices)]


def _column_space(columns: Tensor) -> Tensor:
    """Return an orthonormal basis of the space that columns span."""
    u, sizes, _ = torch.linalg.svd(columns, full_matrices=False)
    basis: Tensor = u[:, sizes > 1e-7 * sizes.max().clamp_min(1e-300)]
    return basis
