"""Attri-Fed: a game whose representations are short codes, and the code itself.

`game.py` has the game and its networks; `prior.py` the learned prior behind the rate; `code.py` the code of whole
numbers with known probabilities; `message.py` turns records into bytes and back; `certifying.py` certifies what the
codes can reveal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedveil.core.lazy import lazy

if TYPE_CHECKING:
    from fedveil.games.attri_fed.code import RateCode as RateCode
    from fedveil.games.attri_fed.game import AttriFed as AttriFed

__all__ = lazy(__name__)
