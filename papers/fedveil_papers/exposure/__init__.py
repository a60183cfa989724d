"""Exposure: what single updates say about their senders, with and without a shield.

A laboratory for federated SGD with one record per client (or a few), as RecUP-FL studies it: `task` names data, network
and loss; `training` plays the rounds under a shield; `seen` shows what a server sees of many people's updates;
`readers` are its attackers, static and retrained; `point` measures one shield at one strength.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedveil.core.lazy import lazy

if TYPE_CHECKING:
    from fedveil.updates.gradients import network_segments as network_segments
    from fedveil.updates.gradients import per_sample_gradients as per_sample_gradients
    from fedveil_papers.exposure.networks import network as network
    from fedveil_papers.exposure.point import Laboratory as Laboratory
    from fedveil_papers.exposure.point import Point as Point
    from fedveil_papers.exposure.task import Task as Task
    from fedveil_papers.exposure.task import make_task as make_task

__all__ = lazy(__name__)
