"""Targets drawn from the prior: steps through a zoo towards a value that is independent of the true one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from fedveil.core.arrays import IntArray
from fedveil.core.randomness import child_seed
from fedveil.shields.recup.fgsm import DirectPoint, climb, draw_models, slopes_of
from fedveil.shields.recup.fitting import fit_zoo, refit
from fedveil.shields.recup.zoo import Zoo
from fedveil.updates.segments import Segment

STEPS = 5
MODELS = 3
_MOST_FITS = 3
"""A zoo is fitted at most this many times."""


def towards(updates: Tensor, zoo: Zoo, targets: Tensor, share: Tensor, number: int, seed: int) -> Tensor:
    """Return (n, d) changes of norm share · ‖update‖ that make the zoo read the targets.

    RecUP-FL's meta-train and meta-test (see `fedveil.shields.recup.fgsm`), downhill towards a target instead of uphill
    from the true value, which is not read here.
    """
    norms = torch.linalg.vector_norm(updates, dim=1, keepdim=True)
    size = share[:, None] * norms / (STEPS * updates.shape[1] ** 0.5)
    uphill = slopes_of(zoo, targets)
    point = DirectPoint(updates, zoo.segments, zoo.features)
    drawn = draw_models(zoo, "meta", STEPS, min(MODELS, len(zoo)), seed, number)
    with torch.no_grad():
        climb(point, lambda member, inputs: -uphill(member, inputs), drawn, size, "meta")
    change = point.now - updates
    length = torch.linalg.vector_norm(change, dim=1, keepdim=True)
    return change * torch.where(length > 0, share[:, None] * norms / torch.where(length > 0, length, 1.0), 0.0)


def fit_target_zoos(
    updates: Tensor,
    codes: Mapping[str, IntArray],
    segments: Sequence[Segment],
    share: float,
    retrained: int,
    seed: int,
) -> dict[str, Zoo]:
    """Fit a small zoo for each attribute on max-pooled updates, then again on updates that moved towards targets."""
    zoos = {}
    shares = torch.full((len(updates),), share, dtype=updates.dtype)
    for name, column in codes.items():
        zoo_seed = child_seed(seed, "zoo", name)
        values = [str(code) for code in range(int(column.max()) + 1)]
        zoo = fit_zoo(updates, column, values, name, segments, "max", (64, 128, 256), seed=zoo_seed)
        for fit in range(1, min(_MOST_FITS, retrained)):
            generator = torch.Generator().manual_seed(child_seed(zoo_seed, "targets", fit) % 2**63)
            targets = torch.multinomial(zoo.prior, len(updates), True, generator=generator)
            change = towards(updates, zoo, targets, shares, fit, zoo_seed)
            zoo = refit(zoo, updates + change, column, seed=child_seed(zoo_seed, "again", fit))
        zoos[name] = zoo
    return zoos
