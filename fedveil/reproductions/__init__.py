"""What a preset shows beyond its studies' rows: one short file per kind of table or figure.

A preset names it (`shows: matched-leakage`, or a mapping with `kind` and settings); presets of several papers may show
the same kind.
"""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from fedveil.errors import InputError
from fedveil.reproductions.losses_by_strength import LossesByStrength
from fedveil.reproductions.maps import Maps
from fedveil.reproductions.matched_leakage import MatchedLeakage
from fedveil.reproductions.method_matrix import MethodMatrix
from fedveil.reproductions.shown import Played, Shown

__all__ = ["KINDS", "Played", "Shown", "make_shown"]

KINDS: dict[str, type[Shown]] = {kind.kind: kind for kind in (MethodMatrix, LossesByStrength, Maps, MatchedLeakage)}


def make_shown(told: Any, where: str) -> Shown:
    """Return what a preset's `shows` asks for: a kind's name, or a mapping with `kind` and its settings."""
    from fedveil.studies import parts
    from fedveil.studies.study import PartSettings

    try:
        part = PartSettings.model_validate({"kind": told} if isinstance(told, str) else told)
    except ValidationError:
        raise InputError(f"{where}: {told!r} is not allowed; name one of {', '.join(KINDS)}") from None
    made: Shown = parts.choose(KINDS, part, where)
    return made
