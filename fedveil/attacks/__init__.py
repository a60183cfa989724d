"""Attackers: what a curious observer reads out of what left the devices.

`attack.py` says what an attacker must do; one file holds each attacker; `panel.py` trains them all,
chooses the strongest on validation and scores it on victims (`measures.py`, with bootstrap intervals). `floor.py` says
what a task's label alone gives away.
"""

from fedveil.attacks.attack import Attack, Labelled
from fedveil.attacks.floor import floor
from fedveil.attacks.judgement import AttackerFigures, Beyond, Judgement
from fedveil.attacks.panel import FULL, QUICK, Panel, panel

__all__ = ["FULL", "QUICK", "Attack", "AttackerFigures", "Beyond", "Judgement", "Labelled", "Panel", "floor", "panel"]
