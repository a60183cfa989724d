"""Tasks that compute at once; worker processes import them from here."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedveil.core.errors import InputError
from fedveil.studies.units import Report


def measured(payload: Mapping[str, Any], report: Report) -> dict[str, Any]:
    """Return facts about the process; a negative number cannot be measured."""
    import torch

    if payload["number"] < 0:
        raise InputError("a part that cannot be measured")
    report.progress(0.5, "half")
    return {"number": payload["number"], "threads": torch.get_num_threads(), "process": os.getpid()}


def summed(payload: Mapping[str, Any], report: Report) -> dict[str, Any]:
    """Return figures whose last bits depend on the number of threads, and values that JSON writes differently."""
    import torch

    numbers = torch.rand(1_000_000, generator=torch.Generator().manual_seed(payload["seed"]))
    report.warning(f"seed {payload['seed']}")
    return {"sum": float(numbers.sum()), 3: (0.1, float("nan"))}


def dying(payload: Mapping[str, Any], report: Report) -> dict[str, Any]:
    """Kill this process as often as the file says."""
    file = Path(payload["file"])
    left = int(file.read_text())
    if left:
        file.write_text(str(left - 1))
        os.kill(os.getpid(), signal.SIGKILL)
    return {"alive": True}


def broken(payload: Mapping[str, Any], report: Report) -> dict[str, Any]:
    """Fail as a bug does, or as a full disk does."""
    print("what a library prints")
    if payload.get("errno"):
        raise OSError(payload["errno"], os.strerror(payload["errno"]), "a-file")
    raise ValueError("not\nthought of")
