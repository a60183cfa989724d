"""Soteria (Sun et al. 2021): features that tell most of the input are left out of a layer's gradient."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedveil.core.lazy import lazy

if TYPE_CHECKING:
    from fedveil.shields.soteria.shield import Soteria as Soteria

__all__ = lazy(__name__)
