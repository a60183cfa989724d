"""Games: one short file per method.

`game.py` says what a game is (players, moves, stages) and `play.py` what a loss may use; `losses.py` has the losses per
record, and `optimisers.py` says how players descend them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedveil.core.lazy import lazy

if TYPE_CHECKING:
    from fedveil.games.adversarial import AdversarialTraining as AdversarialTraining
    from fedveil.games.attri_fed import AttriFed as AttriFed
    from fedveil.games.attri_fed import RateCode as RateCode
    from fedveil.games.autoencoder import Autoencoder as Autoencoder
    from fedveil.games.curious import Curious as Curious
    from fedveil.games.dpfe import DPFE as DPFE
    from fedveil.games.fedavg import FedAvg as FedAvg
    from fedveil.games.game import DataShape as DataShape
    from fedveil.games.game import Game as Game
    from fedveil.games.game import Move as Move
    from fedveil.games.game import Player as Player
    from fedveil.games.game import ReleasedRecords as ReleasedRecords
    from fedveil.games.game import Stage as Stage
    from fedveil.games.hardened import Hardened as Hardened
    from fedveil.games.losses import cross_entropy as cross_entropy
    from fedveil.games.losses import one_hot as one_hot
    from fedveil.games.losses import squared_error as squared_error
    from fedveil.games.optimisers import SGD as SGD
    from fedveil.games.optimisers import Adam as Adam
    from fedveil.games.play import Play as Play
    from fedveil.games.play import WithheldError as WithheldError
    from fedveil.games.raw import Raw as Raw
    from fedveil.games.tappfl import TAPPFL as TAPPFL
    from fedveil.games.undefended import Undefended as Undefended

__all__ = lazy(__name__)
