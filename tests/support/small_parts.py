"""A part that is measured at once; other processes find it here."""

from __future__ import annotations

import os
from typing import Any

import torch

from fedveil.core.errors import InputError


def measured(number: int) -> dict[str, Any]:
    if number < 0:
        raise InputError("a part that cannot be measured")
    return {"number": number, "threads": torch.get_num_threads(), "process": os.getpid()}
