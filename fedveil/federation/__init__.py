"""Federation: devices that play a game, and views of exactly what left them.

`federation.py` says who takes part; `run.py` holds the state of a game in play, and `rounds.py` plays it;
`engine_stacked.py` and `engine_plain.py` train the devices of one round; `exchange.py` passes updates from devices to
the server, and `aggregation.py` combines them; `recording.py` has what the server saw during training, `release.py`
what leaves afterwards, and `heads.py` measures how useful that is.
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
    from fedveil.federation.recording import feature_view as feature_view
    from fedveil.federation.release import released_view as released_view
    from fedveil.federation.run import Run as Run
    from fedveil.federation.run import begin as begin

__all__ = lazy(__name__)
