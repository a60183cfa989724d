"""A laboratory for what single updates give away about their senders, with and without a shield.

It plays federated SGD with one record per client (or a few), as RecUP-FL studies it. `task` names data, network and
loss; `sending` computes what a client sends, `training` plays the rounds, and `kept` compares how runs learn;
`readers` has the server's attackers, static and retrained; `point` measures one shield at one strength; `matching`
finds the strength for a norm.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedveil.core.lazy import lazy

if TYPE_CHECKING:
    from fedveil_papers.recup.laboratory.networks import network as network
    from fedveil_papers.recup.laboratory.point import Laboratory as Laboratory
    from fedveil_papers.recup.laboratory.point import Point as Point
    from fedveil_papers.recup.laboratory.readers import Reading as Reading
    from fedveil_papers.recup.laboratory.task import Task as Task
    from fedveil_papers.recup.laboratory.task import make_task as make_task

__all__ = lazy(__name__)
