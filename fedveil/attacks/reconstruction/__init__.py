"""Reconstruction of whole inputs from gradients, and measures of how similar they are to the true inputs.

`inversion.py` has the attack (Geiping et al. 2020), `matching.py` its cost and `lbfgs.py` its second solver;
`quality.py` measures the result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedveil.core.lazy import lazy

if TYPE_CHECKING:
    from fedveil.attacks.reconstruction.inversion import Inversion as Inversion
    from fedveil.attacks.reconstruction.inversion import Reconstruction as Reconstruction
    from fedveil.attacks.reconstruction.inversion import recovered_labels as recovered_labels
    from fedveil.attacks.reconstruction.matching import mismatch as mismatch
    from fedveil.attacks.reconstruction.matching import total_variation as total_variation
    from fedveil.attacks.reconstruction.quality import judged as judged
    from fedveil.attacks.reconstruction.quality import mean_with_interval as mean_with_interval
    from fedveil.attacks.reconstruction.quality import mse as mse
    from fedveil.attacks.reconstruction.quality import psnr as psnr
    from fedveil.attacks.reconstruction.quality import ssim as ssim

__all__ = lazy(__name__)
