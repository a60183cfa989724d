"""Attri-Fed: a game whose representations are short codes, and the code itself.

`game.py` is the game; `prior.py` the learned prior behind the rate; `code.py` turns representations into whole numbers
with known probabilities; `message.py` puts these into bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedveil.core.lazy import lazy

if TYPE_CHECKING:
    from fedveil.games.attri_fed.code import RateCode as RateCode
    from fedveil.games.attri_fed.game import AttriFed as AttriFed

__all__ = lazy(__name__)
