"""What every other package builds on: errors, files, randomness, plug-ins, measures, networks and policies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedveil.core.lazy import lazy

if TYPE_CHECKING:
    from fedveil.core.entropy import binary_entropy as binary_entropy
    from fedveil.core.entropy import conditional_entropy as conditional_entropy
    from fedveil.core.entropy import entropy as entropy
    from fedveil.core.entropy import mutual_information as mutual_information
    from fedveil.core.entropy import plug_in_conditional_entropy as plug_in_conditional_entropy
    from fedveil.core.entropy import plug_in_entropy as plug_in_entropy
    from fedveil.core.entropy import plug_in_mutual_information as plug_in_mutual_information
    from fedveil.core.errors import InputError as InputError
    from fedveil.core.errors import InterruptedWork as InterruptedWork
    from fedveil.core.figures import Estimate as Estimate
    from fedveil.core.kernels import hsic as hsic
    from fedveil.core.kernels import mmd as mmd
    from fedveil.core.models import convolutions as convolutions
    from fedveil.core.models import mlp as mlp
    from fedveil.core.policy import Policy as Policy
    from fedveil.core.randomness import child_seed as child_seed
    from fedveil.core.randomness import numpy_generator as numpy_generator
    from fedveil.core.randomness import torch_generator as torch_generator

__all__ = lazy(__name__)
