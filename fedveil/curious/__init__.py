"""Honest-but-curious classifiers: made here so that they can be measured, and told from honest ones (fedveil.audit).

`fedveil.games.Curious` is the game; `train` plays it as a server does that holds all data, `fine_tune` as one that
changes what a federation has trained; `mixture` and `convex` are the paper's small cases; `prune` and `distil` what
users may do to such a classifier.
"""

from fedveil.curious.classifier import Classifier
from fedveil.curious.distillation import distil
from fedveil.curious.federated import fine_tune, from_run
from fedveil.curious.pruning import prune
from fedveil.curious.training import train

__all__ = ["Classifier", "distil", "fine_tune", "from_run", "prune", "train"]
