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
