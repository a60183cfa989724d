"""Unread: shields' mathematics in the space of updates, none of which looks at the attribute's true value.

`sides.py` reads and moves each layer's inputs and slopes; `erasure.py` is LEACE and iterative null space; `shaping.py`
noise against readers; `targets.py` steps towards values drawn from the prior; `sparing.py` the task's directions;
`decoys.py` mean updates in place of the device's own; `unreading.py` fits all of it on shadow clients.
"""

from fedveil.unread.file import load_unreading, save_unreading
from fedveil.unread.sides import Sides
from fedveil.unread.unreading import Ingredients, Unreading, fit_unreading

__all__ = ["Ingredients", "Sides", "Unreading", "fit_unreading", "load_unreading", "save_unreading"]
