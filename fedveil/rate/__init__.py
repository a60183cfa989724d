"""What codes of known length give away: measured, and certified without an attacker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedveil.core.lazy import lazy

if TYPE_CHECKING:
    from fedveil.rate.certifying import rate_certificates as rate_certificates
    from fedveil.rate.measuring import Measured as Measured
    from fedveil.rate.measuring import Released as Released
    from fedveil.rate.measuring import measure as measure

__all__ = lazy(__name__)
