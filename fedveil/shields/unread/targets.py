"""Targets drawn from the prior: steps through a zoo towards a value that has nothing to do with the true one."""

from __future__ import annotations

import torch
from torch import Tensor

from fedveil.shields.recup import Zoo
from fedveil.shields.recup.fgsm import climb, draw_models, slopes_of
from fedveil.shields.recup.fgsm_points import DirectPoint

STEPS = 5
MODELS = 3


def towards(updates: Tensor, zoo: Zoo, targets: Tensor, share: Tensor, number: int, seed: int) -> Tensor:
    """Return (n, d) changes of norm share · ‖update‖ that make the zoo read the targets.

    RecUP-FL's meta-train and meta-test (see `fedveil.shields.recup.fgsm`), downhill towards a target in place of uphill
    from the truth, which is not read here.
    """
    norms = torch.linalg.vector_norm(updates, dim=1, keepdim=True)
    size = share[:, None] * norms / (STEPS * updates.shape[1] ** 0.5)
    uphill = slopes_of(zoo, targets)
    point = DirectPoint(updates, zoo.segments, zoo.features)
    drawn = draw_models(zoo, "meta", STEPS, min(MODELS, len(zoo)), seed, number)
    with torch.no_grad():
        climb(point, lambda member, found: -uphill(member, found), drawn, size, "meta")
    change = point.now - updates
    length = torch.linalg.vector_norm(change, dim=1, keepdim=True)
    return change * torch.where(length > 0, share[:, None] * norms / torch.where(length > 0, length, 1.0), 0.0)
