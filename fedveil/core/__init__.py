"""What every other package stands on: errors, files, randomness, plug-ins, measures, networks; not privacy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedveil.core.entropy import entropy as entropy
from fedveil.core.lazy import lazy

if TYPE_CHECKING:
    from fedveil.core.errors import InputError as InputError
    from fedveil.core.errors import InterruptedWork as InterruptedWork
    from fedveil.core.figures import Estimate as Estimate
    from fedveil.core.kernels import hsic as hsic
    from fedveil.core.kernels import mmd as mmd
    from fedveil.core.randomness import child_seed as child_seed
    from fedveil.core.randomness import numpy_generator as numpy_generator
    from fedveil.core.randomness import torch_generator as torch_generator

__getattr__, __dir__, __all__ = lazy(__name__)
