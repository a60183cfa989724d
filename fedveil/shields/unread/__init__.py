"""Unread: updates are changed by maps that never read the attribute's true value.

| module | contents |
|---|---|
| `shield` | `Unread`, the shield |
| `fitting` | its ingredients, fitted on shadow devices, and their file |
| `sides` | reads and moves each layer's inputs and slopes |
| `erasure` | LEACE and iterative null space |
| `shaping` | noise against readers |
| `targets` | steps towards values drawn from the prior |
| `directions` | the task's directions, and mean updates that replace the device's |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedveil.core.lazy import lazy

if TYPE_CHECKING:
    from fedveil.shields.unread.fitting import Ingredients as Ingredients
    from fedveil.shields.unread.fitting import Unreading as Unreading
    from fedveil.shields.unread.fitting import fit_unreading as fit_unreading
    from fedveil.shields.unread.fitting import load_unreading as load_unreading
    from fedveil.shields.unread.fitting import save_unreading as save_unreading
    from fedveil.shields.unread.shield import Unread as Unread
    from fedveil.shields.unread.sides import Sides as Sides

__all__ = lazy(__name__)
