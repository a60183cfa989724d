"""Losses by round, as a page shows them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from fedveil.federation.progress import RoundRecord
from fedveil.report.settings import Setting

LOSS_VALUES = 25_000
"""A page holds at most about this many losses; longer curves are thinned evenly, and their ends are kept."""


@dataclass
class Curve:
    """A loss by round; rounds count through all stages, and a loss that is not a number is None."""

    name: str
    rounds: list[int] = field(default_factory=list)
    losses: list[float | None] = field(default_factory=list)

    def thinned(self, most: int) -> Curve:
        """Return the curve with at most `most` rounds."""
        indices = np.unique(np.linspace(0, len(self.rounds) - 1, min(most, len(self.rounds))).round().astype(int))
        return Curve(self.name, [self.rounds[i] for i in indices], [self.losses[i] for i in indices])


@dataclass(frozen=True)
class SeedCurves:
    """The curves of one cell."""

    seed: int
    curves: list[Curve]


def losses(settings: Sequence[Setting], values: int = LOSS_VALUES) -> list[list[SeedCurves]]:
    """Return the curves of each setting's cells, with about `values` losses in total."""
    whole = [[SeedCurves(cell.seed, _curves(cell.metrics)) for cell in setting.cells] for setting in settings]
    count = sum(len(seed.curves) for setting in whole for seed in setting)
    most = max(8, min(200, values // max(1, count)))
    return [[SeedCurves(seed.seed, [curve.thinned(most) for curve in seed.curves]) for seed in s] for s in whole]


def _curves(records: Sequence[RoundRecord]) -> list[Curve]:
    curves: dict[str, Curve] = {}
    several = len({record.stage for record in records}) > 1
    for number, record in enumerate(records, start=1):
        values = record.losses | ({} if record.validation is None else {"validation": record.validation})
        for move, loss in values.items():
            name = f"{record.stage}: {move}" if several else move
            curve = curves.setdefault(name, Curve(name))
            curve.rounds.append(number)
            curve.losses.append(float(f"{loss:.4g}") if math.isfinite(loss) else None)
    return list(curves.values())
