"""Unread: updates changed by maps none of which looks at the attribute's true value.

`shield.py` is the shield; `sides.py` reads and moves each layer's inputs and slopes; `erasure.py` is LEACE and
iterative null space; `shaping.py` noise against readers; `targets.py` steps towards values drawn from the prior;
`sparing.py` the task's directions; `decoys.py` mean updates in place of the device's own; `unreading.py` fits all of it
on shadow clients.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedveil.core.lazy import lazy

if TYPE_CHECKING:
    from fedveil.shields.unread.file import load_unreading as load_unreading
    from fedveil.shields.unread.file import save_unreading as save_unreading
    from fedveil.shields.unread.shield import Unread as Unread
    from fedveil.shields.unread.sides import Sides as Sides
    from fedveil.shields.unread.unreading import Ingredients as Ingredients
    from fedveil.shields.unread.unreading import Unreading as Unreading
    from fedveil.shields.unread.unreading import fit_unreading as fit_unreading

__all__ = lazy(__name__)
