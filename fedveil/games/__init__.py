"""Games: one short file per method.

`game.py` says what a game is (players, moves, stages), `play.py` what a loss may touch, `losses.py` has losses per
record, `optimisers.py` how players descend.
"""

from fedveil.games.adversarial import AdversarialTraining
from fedveil.games.attri_fed import AttriFed
from fedveil.games.autoencoder import Autoencoder
from fedveil.games.curious import Curious
from fedveil.games.dpfe import DPFE
from fedveil.games.fedavg import FedAvg
from fedveil.games.game import DataShape, Game, Move, Player, Stage
from fedveil.games.hardened import Hardened
from fedveil.games.losses import cross_entropy, one_hot, squared_error
from fedveil.games.optimisers import SGD, Adam
from fedveil.games.play import Play, WithheldError
from fedveil.games.raw import Raw
from fedveil.games.tappfl import TAPPFL
from fedveil.games.undefended import Undefended

__all__ = [
    "DPFE",
    "SGD",
    "TAPPFL",
    "Adam",
    "AdversarialTraining",
    "AttriFed",
    "Autoencoder",
    "Curious",
    "DataShape",
    "FedAvg",
    "Game",
    "Hardened",
    "Move",
    "Play",
    "Player",
    "Raw",
    "Stage",
    "Undefended",
    "WithheldError",
    "cross_entropy",
    "one_hot",
    "squared_error",
]
