"""fedveil trains, attacks, certifies and reports attribute privacy in federated learning.

Submodules load when first used, as `fv.data`, `fv.games`, `fv.attacks`, `fv.studies`, ….
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_SUBMODULES = (
    "attacks",
    "audit",
    "certificates",
    "data",
    "federation",
    "games",
    "information",
    "report",
    "shields",
    "studies",
)
_FROM_FEDERATION = ("Federation", "View")


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return importlib.import_module(f"fedveil.{name}")
    if name in _FROM_FEDERATION:
        return getattr(importlib.import_module("fedveil.federation"), name)
    raise AttributeError(f"module 'fedveil' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_SUBMODULES, *_FROM_FEDERATION])
