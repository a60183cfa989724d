"""A tiny TAPPFL, for presets that are run in seconds."""

from __future__ import annotations

from typing import Any

GAME: dict[str, Any] = {"kind": "tappfl", "attribute": "u", "width": 8, "local_epochs": 1, "batch_size": 50}
ROW_KEYS = {"method", "strength", "task", "attribute", "attacker", "seeds", "utility", "leakage", "paper", "more"}
"""The shape of every preset's rows."""

TAPPFL: dict[str, Any] = {"name": "tappfl", "game": GAME, "strengths": [0, 0.5, 1]}
