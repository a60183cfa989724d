"""Mingle: records changed before training, the same way whatever their u, so that people of every u show the same.

`shield.py` is the shield; `plan.py` the linear programme that says how much of each cell goes where; `table.py` fits it
to a table, group of columns by group of columns; `prototypes.py` does the same for pictures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedveil.core.lazy import lazy

if TYPE_CHECKING:
    from fedveil.shields.mingle.plan import Plan as Plan
    from fedveil.shields.mingle.plan import best_guess as best_guess
    from fedveil.shields.mingle.plan import plan as plan
    from fedveil.shields.mingle.prototypes import Prototypes as Prototypes
    from fedveil.shields.mingle.prototypes import fit_prototypes as fit_prototypes
    from fedveil.shields.mingle.shield import Mingle as Mingle
    from fedveil.shields.mingle.table import Step as Step
    from fedveil.shields.mingle.table import fit_step as fit_step

__all__ = lazy(__name__)
