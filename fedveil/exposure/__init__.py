"""Exposure: what single updates say about their senders, with and without a shield.

A laboratory for federated SGD with one record per client (or a few), as RecUP-FL studies it: `task` names data, network
and loss; `training` plays the rounds under a shield; `seen` shows what a server sees of many people's updates;
`readers` are its attackers, static and retrained; `point` measures one shield at one strength.
"""

from fedveil.exposure.gradients import network_segments, per_sample_gradients
from fedveil.exposure.networks import network
from fedveil.exposure.point import Laboratory, Point
from fedveil.exposure.task import Task, make_task

__all__ = [
    "Laboratory",
    "Point",
    "Task",
    "make_task",
    "network",
    "network_segments",
    "per_sample_gradients",
]
