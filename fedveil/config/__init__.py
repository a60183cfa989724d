"""What a study says: its fields, how they are read, and the parts that they name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedveil.core.lazy import lazy

if TYPE_CHECKING:
    from fedveil.config.study import Study as Study
    from fedveil.config.study import make_study as make_study
    from fedveil.config.study import read_study as read_study

__all__ = lazy(__name__)
