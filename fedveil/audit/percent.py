"""Scores in per cent: recognised, and turned into probabilities if the user says so."""

from __future__ import annotations

import numpy as np

from fedveil.audit.outputs import Outputs
from fedveil.core.arrays import FloatArray
from fedveil.core.errors import InputError

_ROUNDED = 0.5
"""By how much a score in whole per cent may differ from the exact one."""

_NO_LOGIT = 20.0
"""A single column of raw scores rarely reaches this; one in per cent nearly always does."""

_CLEAN = 15
"""Decimals that are kept after division by 100: the following ones are an effect of dividing."""


def looks_like_percent(scores: FloatArray) -> bool:
    """Return whether scores, as they stand in a file, are shares of 100.

    >>> looks_like_percent(np.array([[20.0, 80.0], [55.5, 44.5]])), looks_like_percent(np.array([[2.0, 1.5]]))
    (True, False)
    """
    if not len(scores) or scores.min() < 0 or scores.max() > 100 + _ROUNDED:
        return False
    if scores.shape[1] == 1:
        return bool(scores.max() >= _NO_LOGIT)
    return bool((np.abs(scores.sum(axis=1) - 100) <= _ROUNDED * scores.shape[1]).all())


def from_percent(scores: FloatArray, where: str) -> FloatArray:
    """Return scores in per cent as probabilities; refuse what cannot be per cent."""
    outside = np.argwhere((scores < 0) | (scores > 100 + _ROUNDED))
    if len(outside):
        row, column = map(int, outside[0])
        raise InputError(
            f"{where}: row {row + 1} holds {scores[row, column]:.6g}, which is no score in per cent; leave --percent "
            "out, or correct the file"
        )
    if scores.shape[1] == 1 and scores.max(initial=0.0) <= 1:
        raise InputError(
            f"{where}: no score exceeds 1, so they look like probabilities, not like per cent; leave --percent out"
        )
    shares = np.minimum(scores, 100) / 100 if scores.shape[1] == 1 else scores / 100
    if scores.shape[1] > 1:
        sums = scores.sum(axis=1)
        wrong = np.flatnonzero((np.abs(sums - 100) > _ROUNDED * scores.shape[1]) | (sums <= 0))
        if len(wrong):
            raise InputError(
                f"{where}: the scores in row {wrong[0] + 1} sum to {scores[wrong[0]].sum():.6g}, not to 100 per cent; "
                "leave --percent out, or correct the file"
            )
    return np.asarray(np.round(shares, _CLEAN), dtype=np.float64)


def refuse_percent(scores: FloatArray, where: str) -> None:
    """Offer to read scores as per cent if they look like it and the user chose neither --percent nor --raw."""
    if looks_like_percent(scores):
        raise InputError(
            f"{where}: the scores look like per cent (0 to 100), not like probabilities; add --percent to read them as "
            "such, or --raw if they are raw scores (logits)"
        )


def warning_if_percent(outputs: Outputs) -> str | None:
    """Return a warning about scores that are read as raw and look like per cent."""
    if not outputs.raw or not looks_like_percent(np.stack(list(outputs.released.values()), axis=1)):
        return None
    return (
        "Warning: the scores look like per cent (0 to 100), but are read as raw scores (logits), which distorts every "
        "figure that needs probabilities; use --percent in place of --raw."
    )
