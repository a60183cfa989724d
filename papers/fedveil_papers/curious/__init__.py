"""Honest-but-curious classifiers, trained here to be measured, and to be detected by `fedveil.audit`.

`fedveil.games.Curious` is the game. `train` plays it as a server that holds all data; `fine_tune` starts from what a
federation has trained. `mixture` and `convex` are the paper's small cases; `prune` and `distil` are what users may do
to such a classifier. The presets' experiments are in `experiments`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedveil.core.lazy import lazy

if TYPE_CHECKING:
    from fedveil_papers.curious.classifier import Classifier as Classifier
    from fedveil_papers.curious.distillation import distil as distil
    from fedveil_papers.curious.federated import fine_tune as fine_tune
    from fedveil_papers.curious.federated import from_run as from_run
    from fedveil_papers.curious.pruning import prune as prune
    from fedveil_papers.curious.training import train as train

__all__ = lazy(__name__)
