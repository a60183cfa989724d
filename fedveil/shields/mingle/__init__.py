"""Mingle: records are changed before training, in the same way for every u, so that people with different u look alike.

| module | contents |
|---|---|
| `shield` | `Mingle`, the shield |
| `plan` | the linear programme that decides how many records of each cell are shown as another |
| `table` | tables: steps over groups of columns |
| `prototypes` | images, and whole records of tables: averages of a label |
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
