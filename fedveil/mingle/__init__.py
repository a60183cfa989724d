"""Records changed before training, the same way whatever their u, so that people of every u show the same."""

from fedveil.mingle.plan import Plan, best_guess, plan
from fedveil.mingle.prototypes import Prototypes, fit_prototypes
from fedveil.mingle.table import Step, fit_step

__all__ = ["Plan", "Prototypes", "Step", "best_guess", "fit_prototypes", "fit_step", "plan"]
