"""Reconstruction: whole inputs made from gradients, and how like the truth they are.

`inversion` is the attack (Geiping et al. 2020), `matching` its cost, `lbfgs` its second solver, `labels` reads labels
off the last layer, `quality` measures.
"""

from fedveil.attacks.reconstruction.inversion import Inversion, Reconstruction
from fedveil.attacks.reconstruction.labels import recovered_labels
from fedveil.attacks.reconstruction.matching import mismatch, total_variation
from fedveil.attacks.reconstruction.quality import judged, mean_with_interval, mse, psnr, ssim

__all__ = [
    "Inversion",
    "Reconstruction",
    "judged",
    "mean_with_interval",
    "mismatch",
    "mse",
    "psnr",
    "recovered_labels",
    "ssim",
    "total_variation",
]
