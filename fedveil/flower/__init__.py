"""fedveil on Flower: shields as client mods, games as apps, deployments on one machine, and what a real server saw.

Nothing here is imported before it is used: `import fedveil` works without Flower.

For a site, `mod.py` has `shield_mod`, which adds one line to an existing app; `site_shield.py` builds the shield that a
site's policy asks for; `ledger.py` and `spending.py` record what was spent; `records.py` turns Flower's records into
flat updates. For games, there are `server.py`, `node.py`, and `protocol.py` for what both agree on; `new_app.py` writes
an app, and `study_cell.py` is the engine of studies. For deployments on one machine, there is `loopback.py`, with
`processes.py` and `tls.py`. For an auditor, `capture.py` keeps what a server receives, `captured.py` reads it, and
`shadows.py` runs shadow nodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedveil.core.lazy import lazy

if TYPE_CHECKING:
    from fedveil.flower.capture import capture as capture
    from fedveil.flower.captured import Captured as Captured
    from fedveil.flower.ledger import Ledger as Ledger
    from fedveil.flower.loopback import Loopback as Loopback
    from fedveil.flower.mod import shield_mod as shield_mod
    from fedveil.flower.node import client_app as client_app
    from fedveil.flower.server import server_app as server_app
    from fedveil.flower.shadows import shadow_updates as shadow_updates
    from fedveil.flower.spending import Cost as Cost
    from fedveil.flower.spending import epsilon_of as epsilon_of

__all__ = lazy(__name__, needs={"flwr": "fedveil[flower]"})
