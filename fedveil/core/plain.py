"""Plain JSON values: what every file and every `--json` output is made of."""

from __future__ import annotations

import math
from typing import Any


def plain(value: Any) -> Any:
    """Return a value as JSON can hold it; a figure that is no number becomes null, as JSON has no NaN.

    >>> plain({"a": (1, float("nan"))})
    {'a': [1, None]}
    """
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value
