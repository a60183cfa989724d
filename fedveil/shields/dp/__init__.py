"""Noise with an accounted ε: on messages (Gaussian, Laplace) and on the gradients of records (DP-SGD)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedveil.core.lazy import lazy

if TYPE_CHECKING:
    from fedveil.shields.dp.dp_sgd import DPSGD as DPSGD
    from fedveil.shields.dp.gaussian import DPGaussian as DPGaussian
    from fedveil.shields.dp.laplace import DPLaplace as DPLaplace
    from fedveil.shields.dp.noise import NoiseShield as NoiseShield

__all__ = lazy(__name__)
