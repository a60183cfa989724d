"""How similar reconstructions are to the true images: MSE in 0–255, PSNR, SSIM; means with intervals over victims."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from fedveil.core.arrays import FloatArray, IntArray
from fedveil.core.bootstrap import bootstrap_weights
from fedveil.core.errors import InputError
from fedveil.core.figures import Estimate
from fedveil.core.measures import interval
from fedveil.core.randomness import numpy_generator


def mse(images: Tensor, truth: Tensor, box: tuple[float, float] = (0.0, 1.0)) -> Tensor:
    """Return each image's mean squared error on the scale 0–255, as RecUP-FL prints it.

    >>> mse(torch.zeros(1, 1, 2, 2), torch.full((1, 1, 2, 2), 0.1)).round(decimals=3).item()
    650.25
    """
    images, truth = _scaled(images, truth, box)
    return (images - truth).square().flatten(1).mean(dim=1)


def psnr(images: Tensor, truth: Tensor, box: tuple[float, float] = (0.0, 1.0)) -> Tensor:
    """Return each image's peak signal-to-noise ratio, 10·log₁₀(255²/MSE) dB; ∞ for equal images.

    >>> round(psnr(torch.zeros(1, 1, 2, 2), torch.full((1, 1, 2, 2), 0.1)).item(), 6)
    20.0
    """
    return 10 * torch.log10(255**2 / mse(images, truth, box))


def ssim(images: Tensor, truth: Tensor, box: tuple[float, float] = (0.0, 1.0)) -> Tensor:
    """Return each image's structural similarity (Wang et al. 2004), the mean over channels and windows.

    Windows are Gaussian, 11 × 11 with σ = 1.5, whole windows only, with K = (0.01, 0.03); if a side of the image is
    below 11, the window's side is the largest odd number that fits.
    """
    images, truth = _scaled(images, truth, box)
    side = min(11, *truth.shape[2:])
    side -= 1 - side % 2
    offset = torch.arange(side, dtype=torch.float64) - side // 2
    bell = torch.exp(-offset.square() / (2 * 1.5**2))
    window = torch.outer(bell, bell)[None, None] / bell.sum() ** 2

    def smooth(image: Tensor) -> Tensor:
        return functional.conv2d(image.flatten(0, 1)[:, None], window)

    mean_a, mean_b = smooth(images), smooth(truth)
    var_a = smooth(images * images) - mean_a.square()
    var_b = smooth(truth * truth) - mean_b.square()
    covariance = smooth(images * truth) - mean_a * mean_b
    c1, c2 = (0.01 * 255) ** 2, (0.03 * 255) ** 2
    similarity = (2 * mean_a * mean_b + c1) * (2 * covariance + c2)
    similarity = similarity / ((mean_a.square() + mean_b.square() + c1) * (var_a + var_b + c2))
    return similarity.flatten(1).view(len(truth), -1).mean(dim=1)


MEASURES: dict[str, Callable[[Tensor, Tensor, tuple[float, float]], Tensor]] = {"mse": mse, "psnr": psnr, "ssim": ssim}


def judged(images: Tensor, truth: Tensor, box: tuple[float, float] = (0.0, 1.0)) -> dict[str, FloatArray]:
    """Return every measure for every victim."""
    return {name: measure(images, truth, box).numpy() for name, measure in MEASURES.items()}


def mean_with_interval(
    values: FloatArray, seed: int = 0, groups: IntArray | None = None, draws: int = 2000, confidence: float = 0.95
) -> Estimate:
    """Return the mean over victims with its bootstrap interval; with `groups`, whole groups are drawn."""
    weights = bootstrap_weights(len(values), groups, draws, numpy_generator(seed, "reconstruction"))
    means = [(block @ values) / np.maximum(block.sum(axis=1), 1) for block in weights]
    return interval(np.concatenate(means), confidence)


def _scaled(images: Tensor, truth: Tensor, box: tuple[float, float]) -> tuple[Tensor, Tensor]:
    if images.shape != truth.shape or truth.ndim != 4:
        raise InputError(
            f"quality: images of shape {tuple(images.shape)} against {tuple(truth.shape)}; both must be (n, channels, "
            "height, width)"
        )
    low, high = box
    scaled, true = ((pixels.double() - low) / (high - low) * 255 for pixels in (images, truth))
    return scaled, true
