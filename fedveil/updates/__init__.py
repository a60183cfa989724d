"""Updates as shields and attackers read them: which numbers are which layer's, and what to make of so many.

`segments.py` says where each tensor lies in an update; `features.py` makes fewer numbers of one, so that gradients flow
back through them; `gradients.py` computes gradients record by record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedveil.core.lazy import lazy
from fedveil.updates.features import FEATURES as FEATURES
from fedveil.updates.features import features as features

if TYPE_CHECKING:
    from fedveil.updates.segments import Segment as Segment

__all__ = lazy(__name__)
