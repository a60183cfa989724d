"""Federation: devices play a game, and a view of exactly what left them.

`federation.py` says who takes part; `run.py` plays the rounds; `engine_stacked.py` and `engine_plain.py` do the work of
one round; `exchange.py` is what passes between devices and server, `aggregation.py` what the server makes of it;
`recording.py` is what the server saw of it, `release.py` what leaves after training; `view.py` is what an observer saw.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedveil.federation.aggregation import Krum, MaskedMean, Mean, Median, TrimmedMean, WeightedMean
    from fedveil.federation.federation import Federation
    from fedveil.federation.progress import RoundRecord
    from fedveil.federation.run import Run
    from fedveil.federation.view import Pool, View

_HOME = {
    **dict.fromkeys(("Krum", "MaskedMean", "Mean", "Median", "TrimmedMean", "WeightedMean"), "aggregation"),
    "RoundRecord": "progress",
    "Run": "run",
    **dict.fromkeys(("Pool", "View"), "view"),
    "Federation": "federation",
}

__all__ = [
    "Federation",
    "Krum",
    "MaskedMean",
    "Mean",
    "Median",
    "Pool",
    "RoundRecord",
    "Run",
    "TrimmedMean",
    "View",
    "WeightedMean",
]


def __getattr__(name: str) -> Any:
    # Looked up when first used: whoever only judges vectors need not wait for the engines to load.
    if name in _HOME:
        return getattr(importlib.import_module(f"fedveil.federation.{_HOME[name]}"), name)
    raise AttributeError(f"module 'fedveil.federation' has no attribute {name!r}")
