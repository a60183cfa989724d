"""Attackers: what a curious observer reads out of what left the devices.

`attack.py` says what an attacker must do; one file holds each attacker; `panel.py` trains them all,
chooses the strongest on validation and scores it on victims (`measures.py`, with bootstrap intervals). `floor.py` says
what a task's label alone gives away.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedveil.attacks.floor import floor as floor
from fedveil.attacks.panel import FULL as FULL
from fedveil.attacks.panel import QUICK as QUICK
from fedveil.attacks.panel import Panel as Panel
from fedveil.attacks.panel import panel as panel
from fedveil.core.lazy import lazy

if TYPE_CHECKING:
    from fedveil.attacks.attack import Attack as Attack
    from fedveil.attacks.attack import Labelled as Labelled
    from fedveil.attacks.judgement import AttackerFigures as AttackerFigures
    from fedveil.attacks.judgement import Beyond as Beyond
    from fedveil.attacks.judgement import Judgement as Judgement

__all__ = lazy(__name__)
