"""Federation: devices play a game, and a view of exactly what left them.

`federation.py` says who takes part; `run.py` plays the rounds; `engine_stacked.py` and `engine_plain.py` do the work of
one round; `exchange.py` is what passes between devices and server, `aggregation.py` what the server makes of it;
`recording.py` is what the server saw of it, `release.py` what leaves after training; `view.py` is what an observer saw.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedveil.core.lazy import lazy

if TYPE_CHECKING:
    from fedveil.federation.aggregation import Aggregator as Aggregator
    from fedveil.federation.aggregation import Krum as Krum
    from fedveil.federation.aggregation import MaskedMean as MaskedMean
    from fedveil.federation.aggregation import Mean as Mean
    from fedveil.federation.aggregation import Median as Median
    from fedveil.federation.aggregation import TrimmedMean as TrimmedMean
    from fedveil.federation.aggregation import WeightedMean as WeightedMean
    from fedveil.federation.federation import Federation as Federation
    from fedveil.federation.progress import RoundRecord as RoundRecord
    from fedveil.federation.release import released_view as released_view
    from fedveil.federation.run import Run as Run
    from fedveil.federation.update_features import feature_view as feature_view

__all__ = lazy(__name__)
