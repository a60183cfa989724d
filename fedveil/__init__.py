"""fedveil hides chosen sensitive attributes in federated learning, and proves and measures how well.

Every name below is loaded when it is first used: `fv.data`, `fv.games`, `fv.attacks`, `fv.studies`, ….
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedveil.core.lazy import lazy

__version__ = "0.1.0"

if TYPE_CHECKING:
    from fedveil import attacks as attacks
    from fedveil import audit as audit
    from fedveil import certificates as certificates
    from fedveil import config as config
    from fedveil import core as core
    from fedveil import data as data
    from fedveil import federation as federation
    from fedveil import flower as flower
    from fedveil import games as games
    from fedveil import rate as rate
    from fedveil import report as report
    from fedveil import shields as shields
    from fedveil import studies as studies
    from fedveil import updates as updates
    from fedveil import view as view
    from fedveil import zoos as zoos
    from fedveil.core.errors import InputError as InputError
    from fedveil.federation.federation import Federation as Federation
    from fedveil.federation.run import Run as Run
    from fedveil.view import View as View

__all__ = lazy(__name__)
