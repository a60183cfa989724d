"""fedveil on Flower: shields as client mods, games as apps, deployments on loopback, and what a real server saw.

Nothing here is imported before it is asked for: `import fedveil` works without Flower.
`mod.py` has `shield_mod`, the one line in an existing app; `policy_file.py` what the person at a site writes;
`ledger.py` and `spending.py` what was spent; `records.py` Flower's records as flat updates.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fedveil.errors import InputError

if TYPE_CHECKING:
    from fedveil.flower.ledger import Ledger
    from fedveil.flower.mod import shield_mod
    from fedveil.flower.policy_file import SitePolicy

__all__ = ["Ledger", "SitePolicy", "shield_mod"]

_PLACES = {"Ledger": "ledger", "SitePolicy": "policy_file", "shield_mod": "mod"}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f"fedveil.flower.{_PLACES[name]}"), name)
    except ModuleNotFoundError as fault:
        if (fault.name or "").partition(".")[0] != "flwr":
            raise
        raise InputError(f"{name}: Flower is not installed; pip install 'fedveil[flower]'") from None
