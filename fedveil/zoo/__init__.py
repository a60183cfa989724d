"""Zoos: substitute attackers that a shield on updates is built against (RecUP-FL §4.2), fitted on a shadow run.

`zoo.py` is what a shield reads; `fitting.py` fits one on updates or gradients; `file.py` keeps it in one safetensors
file; `seen.py` tells how far a model has moved since; `building.py` makes one from a study.
"""

from fedveil.zoo.fitting import Fitting, fit_zoo, refit
from fedveil.zoo.members import hidden_sizes, spread_widths
from fedveil.zoo.zoo import Zoo

__all__ = ["Fitting", "Zoo", "fit_zoo", "hidden_sizes", "refit", "spread_widths"]
