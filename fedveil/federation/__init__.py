"""Federation: devices play a game, and a view of exactly what left them.

`federation.py` says who takes part; `run.py` plays the rounds; `engine_stacked.py` and `engine_plain.py` do the work of
one round; `aggregation.py` is the server's; `view.py` is what an observer saw.
"""

from fedveil.federation.aggregation import Krum, MaskedMean, Mean, Median, TrimmedMean, WeightedMean
from fedveil.federation.federation import Federation
from fedveil.federation.run import RoundRecord, Run
from fedveil.federation.view import Pool, View

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
