"""Updates as shields and attackers read them: where each layer's numbers are, and features computed from them.

`segments.py` says where each tensor lies in an update; `features.py` summarises an update by differentiable features;
`gradients.py` computes a gradient for each record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedveil.core.lazy import lazy

if TYPE_CHECKING:
    from fedveil.updates.features import FEATURES as FEATURES
    from fedveil.updates.features import features as features
    from fedveil.updates.gradients import network_segments as network_segments
    from fedveil.updates.gradients import per_sample_gradients as per_sample_gradients
    from fedveil.updates.segments import Segment as Segment

__all__ = lazy(__name__)
