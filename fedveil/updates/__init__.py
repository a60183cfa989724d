"""Updates as shields and attackers read them: which numbers are which layer's, and what to make of so many.

`segments.py` says where each tensor lies in an update; `features.py` makes fewer numbers of one, so that gradients flow
back through them; `views.py` lets an observer see those, by device or by round.
"""

from fedveil.updates.features import FEATURES, features
from fedveil.updates.segments import Segment, segments_of
from fedveil.updates.views import device_labels, feature_view

__all__ = ["FEATURES", "Segment", "device_labels", "feature_view", "features", "segments_of"]
