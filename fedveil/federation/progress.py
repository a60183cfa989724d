"""How far a run has come: one record per round, as plain values."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class RoundRecord:
    """What happened in one round.

    Attributes:
        stage, round: which; rounds count from 1 in each stage.
        devices: those that answered. silent: those whose shield could not run, and that sent nothing.
        losses: mean loss by move. validation: the stage's validation loss, where it has one.
        damage: what the shield, a chain as a whole, did to the updates, averaged over devices: l2, linf, cosine, bytes.
        bytes_up: how much the devices sent.
        utility_only: by attribute that the game hides, how many of the devices lack it or hold one value of it.
    """

    stage: str
    round: int
    devices: int
    silent: int
    losses: dict[str, float]
    validation: float | None
    damage: dict[str, float]
    bytes_up: int
    utility_only: dict[str, int] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self)


@dataclass
class Progress:
    """How far a run has come; everything but tensors, as plain values."""

    stage: int = 0
    round: int = 0
    best: float | None = None
    best_round: int = 0
    history: list[RoundRecord] = field(default_factory=list)
