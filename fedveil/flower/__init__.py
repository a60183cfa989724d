"""fedveil on Flower: shields as client mods, games as apps, deployments on loopback, and what a real server saw.

Nothing here is imported before it is asked for: `import fedveil` works without Flower.
`mod.py` has `shield_mod`, the one line in an existing app; `site_shield.py` the shield that a site's policy asks for;
`ledger.py` and `spending.py` what was spent; `records.py` Flower's records as flat updates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedveil.core.lazy import lazy

if TYPE_CHECKING:
    from fedveil.flower.ledger import Ledger as Ledger
    from fedveil.flower.mod import shield_mod as shield_mod

__getattr__, __dir__, __all__ = lazy(__name__, needs={"flwr": "fedveil[flower]"})
