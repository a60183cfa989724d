"""What people's files say: studies and policies, how they are read, and the parts that they name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedveil.core.lazy import lazy

if TYPE_CHECKING:
    from fedveil.config.policy import parse_policy as parse_policy
    from fedveil.config.policy import read_policy as read_policy
    from fedveil.config.policy import shield_for as shield_for
    from fedveil.config.study import Study as Study
    from fedveil.config.study import make_study as make_study
    from fedveil.config.study import read_study as read_study
    from fedveil.core.policy import Policy as Policy

__all__ = lazy(__name__)
