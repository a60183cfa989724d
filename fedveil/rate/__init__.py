"""What codes of known length cost, what attackers read from them, and what no attacker can exceed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedveil.core.lazy import lazy

if TYPE_CHECKING:
    from fedveil.rate.measuring import Measured as Measured
    from fedveil.rate.measuring import Released as Released
    from fedveil.rate.measuring import Sent as Sent
    from fedveil.rate.measuring import measure as measure

__all__ = lazy(__name__)
