"""Updates with what is known of their senders, as features: one part to learn from, one to stop on and to score by."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fedveil.core.arrays import IntArray
from fedveil.core.errors import InputError
from fedveil.data.attribute_data import Split
from fedveil.data.splits import random_split
from fedveil.updates.features import features
from fedveil.updates.segments import Segment

_AT_ONCE = 256
"""Updates whose features are computed at a time: an update may hold millions of numbers."""

Validation = float | tuple[Tensor, IntArray] | tuple[Tensor, IntArray, IntArray]
"""The share to hold out, or updates with codes (and senders) of their own."""


@dataclass(frozen=True, eq=False)
class Known:
    """Features with the codes and the senders behind them."""

    x: Tensor
    codes: IntArray
    groups: IntArray | None

    def take(self, rows: np.ndarray) -> Known:
        """Keep the rows that a mask marks."""
        groups = None if self.groups is None else self.groups[rows]
        return Known(self.x[torch.from_numpy(np.flatnonzero(rows))], self.codes[rows], groups)


@dataclass(frozen=True)
class Reading:
    """What is read of updates: which attribute, by which features; `precomputed` where they are features already."""

    attribute: str
    values: tuple[str, ...]
    segments: tuple[Segment, ...]
    how: str
    precomputed: bool

    def parts(
        self, updates: Tensor, codes: IntArray, groups: IntArray | None, validation: Validation, seed: int
    ) -> tuple[Known, Known]:
        """Return what is learned from and what is held out; both must know two values at least."""
        known = self.known(updates, codes, groups)
        if isinstance(validation, tuple):
            own = validation[2] if len(validation) == 3 else None
            train, held = known, self.known(validation[0], validation[1], own)
            if held.x.shape[1:] != known.x.shape[1:]:
                raise InputError(f"zoo: {known.x.shape[1]} features to learn from and {held.x.shape[1]} held out")
        else:
            train, held = _split(known, validation, seed)
        if len(np.unique(train.codes)) < 2 or len(np.unique(held.codes)) < 2:
            raise InputError(
                f"zoo: too few shadows: {len(train.codes)} updates to learn {self.attribute!r} from and "
                f"{len(held.codes)} to validate on, and each part needs two values of it; use more shadows, or deal "
                "records by the attribute"
            )
        return train, held

    def known(self, updates: Tensor, codes: IntArray, groups: IntArray | None) -> Known:
        """Compute features a few updates at a time, and leave out those whose value nobody knows."""
        codes = np.asarray(codes, dtype=np.int64)
        if updates.ndim != 2 or codes.shape != (len(updates),) or (groups is not None and len(groups) != len(updates)):
            raise InputError(
                f"zoo: updates of shape {tuple(updates.shape)} for {codes.size} codes; give one row, one code and, "
                "where senders are named, one sender each"
            )
        if len(codes) and not -1 <= int(codes.min()) <= int(codes.max()) < len(self.values):
            raise InputError(f"zoo: codes must be −1 (unknown) to {len(self.values) - 1}, the values' places")
        if self.precomputed:
            expected = features(torch.zeros(1, self.segments[-1].stop), self.segments, self.how).shape[1]
            if updates.shape[1] != expected:
                raise InputError(f"zoo: {updates.shape[1]} features of each update, where {self.how!r} has {expected}")
        with torch.no_grad():
            x = torch.cat([self._features(part) for part in torch.split(updates.detach(), _AT_ONCE)])
        if not bool(torch.isfinite(x).all()):
            raise InputError("zoo: the updates hold numbers that are not finite; leave those updates out")
        return Known(x, codes, None if groups is None else np.asarray(groups)).take(codes >= 0)

    def _features(self, updates: Tensor) -> Tensor:
        found = updates if self.precomputed else features(updates, self.segments, self.how)
        return found.to("cpu", torch.float32)


def _split(known: Known, share: float, seed: int) -> tuple[Known, Known]:
    """Hold out a share of the senders, each with all its updates, the values' shares kept."""
    if not 0 < share < 1:
        raise InputError(f"zoo: the share to validate on lies between 0 and 1; got {share}")
    split = random_split(
        len(known.codes), seed=seed, validation=share, test=0.0, strata=known.codes, groups=known.groups
    )
    return known.take(split == Split.TRAIN), known.take(split == Split.VALIDATION)
