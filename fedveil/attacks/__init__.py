"""Attackers: what a curious observer infers from what left the devices.

`attack.py` has the interface of attackers on vectors, and each attacker has a file. `panel.py` trains several
and scores them on victims; `trial.py` tries one attacker, and `fresh.py` tries attackers that learn from people on whom
the defence was never fitted; `strongest.py` takes the largest figure, `findings.py` makes the judgement that
`judgement.py` holds. `floor.py` estimates how well a
task's label alone reveals an attribute. `reconstruction/` recovers whole inputs from gradients.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedveil.core.lazy import lazy

if TYPE_CHECKING:
    from fedveil.attacks import reconstruction as reconstruction
    from fedveil.attacks.attack import Attack as Attack
    from fedveil.attacks.attack import Labelled as Labelled
    from fedveil.attacks.cotrained import judge_cotrained as judge_cotrained
    from fedveil.attacks.decensor import judge_decensoring as judge_decensoring
    from fedveil.attacks.floor import floor as floor
    from fedveil.attacks.judgement import AttackerFigures as AttackerFigures
    from fedveil.attacks.judgement import Beyond as Beyond
    from fedveil.attacks.judgement import Decensoring as Decensoring
    from fedveil.attacks.judgement import Judgement as Judgement
    from fedveil.attacks.mutual_information import cross_fitted_information as cross_fitted_information
    from fedveil.attacks.panel import FULL as FULL
    from fedveil.attacks.panel import QUICK as QUICK
    from fedveil.attacks.panel import Panel as Panel
    from fedveil.attacks.panel import panel as panel
    from fedveil.attacks.polls import DeviceFigures as DeviceFigures
    from fedveil.attacks.polls import TargetFigures as TargetFigures
    from fedveil.attacks.polls import attack_devices as attack_devices
    from fedveil.attacks.polls import attack_target as attack_target

__all__ = lazy(__name__)
