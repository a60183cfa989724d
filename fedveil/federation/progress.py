"""How far a run has come: one record per round, as plain values; reading them does not need torch."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class RoundRecord:
    """What happened in one round.

    Attributes:
        stage: the stage's name.
        round: the round's number in its stage, from 1.
        devices: how many devices answered.
        silent: how many of them sent nothing because their shield could not run.
        losses: mean loss by move.
        validation: the stage's validation loss, if it has one.
        damage: what the shield, a chain as a whole, did to the updates, averaged over devices: l2, linf, cosine, bytes.
        bytes_up: how much the devices sent.
        utility_only: for each attribute that the game hides, how many of the devices lack it or hold only one value of
            it.
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
    """How far a run has come, as plain values: everything but tensors.

    Attributes:
        stage: the index of the current stage.
        round: how many of its rounds have been played.
        best: the lowest validation loss in this stage.
        best_round: the round in which it was reached.
        history: one record per round played, of all stages.
    """

    stage: int = 0
    round: int = 0
    best: float | None = None
    best_round: int = 0
    history: list[RoundRecord] = field(default_factory=list)
