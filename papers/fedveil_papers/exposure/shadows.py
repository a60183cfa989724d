"""Shields that are fitted on updates: the laboratory's shadow clients, whose attributes are known, are half of those
that an attacker learns from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
import torch

from fedveil.data import Split
from fedveil.shields.shield import Shield

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torch import Tensor

    from fedveil.core.arrays import IntArray
    from fedveil.updates.segments import Segment
    from fedveil_papers.exposure.point import Laboratory

_NUMBERS = 2**26
"""How many numbers of shadows' updates are held at once."""


@runtime_checkable
class FromShadows(Protocol):
    """A shield that learns from clean updates of clients whose attributes are known."""

    def fitted(
        self, updates: Tensor, codes: Mapping[str, IntArray], segments: Sequence[Segment], labels: IntArray | None
    ) -> Shield:
        """Return the shield, ready."""


def fitted(lab: Laboratory, shield: Shield) -> Shield:
    """Fit a shield that needs it on every second training client's updates in all rounds looked at."""
    if not isinstance(shield, FromShadows):
        return shield
    task = lab.task
    most = max(1, _NUMBERS // (task.segments[-1].stop * len(lab.rounds)))
    people = task.people(Split.TRAIN)[::2][:most]
    models = [task.model(lab.undefended.weights[number]) for number in lab.rounds]
    updates = torch.cat([task.gradients(model, people) for model in models])
    times = len(lab.rounds)
    codes = {name: np.tile(task.labels(people, name).codes, times) for name in lab.attributes}
    assert task.data.y is not None
    return shield.fitted(updates, codes, task.segments, np.tile(task.data.y.codes[people[:, 0]], times))
