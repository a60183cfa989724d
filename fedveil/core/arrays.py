"""Names for the arrays that most functions take and return, and a digest of their contents."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import numpy.typing as npt

BoolArray = npt.NDArray[np.bool_]
FloatArray = npt.NDArray[np.float64]
FloatingArray = npt.NDArray[np.floating[Any]]
"""Floats of any width."""
IntArray = npt.NDArray[np.int64]

_ROWS_AT_ONCE = 16_384


def digest(*arrays: npt.NDArray[Any]) -> str:
    """Return 16 hexadecimal digits that identify the arrays' contents, in this order.

    >>> digest(np.arange(3)) == digest(np.arange(1), np.arange(1, 3))
    True
    >>> digest(np.arange(3)) == digest(np.arange(1, 4))
    False
    """
    contents = hashlib.sha256()
    for array in arrays:
        contents.update(np.ascontiguousarray(array).reshape(-1).data)
    return contents.hexdigest()[:16]


def first_non_finite(rows: FloatingArray) -> int | None:
    """Return the first row with a NaN or an infinity, or None; looked for block by block, to save memory.

    >>> first_non_finite(np.array([[1.0, 2.0], [np.nan, 0.0]]))
    1
    """
    flat = rows.reshape(len(rows), -1)
    for start in range(0, len(flat), _ROWS_AT_ONCE):
        finite = np.isfinite(flat[start : start + _ROWS_AT_ONCE]).all(axis=1)
        if not finite.all():
            return start + int(finite.argmin())
    return None
