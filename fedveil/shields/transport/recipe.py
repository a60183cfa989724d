"""How a map is fitted: the settings of `fedveil.shields.Transport`, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Real

from fedveil.core.errors import InputError
from fedveil.shields.transport.columns import Column


@dataclass(frozen=True)
class Recipe:
    """How a chart is fitted; `fedveil.shields.Transport` explains each field."""

    keep: Mapping[str, float] = field(default_factory=dict)
    strength: float = 1.0
    codes: int = 300
    temperature: float = 0.05
    stay: float = 6.0
    least: int = 100
    questions: int = 100
    noise: float = 0.0
    crowd: int = 1
    weights: Mapping[str, float] = field(default_factory=dict)
    directions: int = 3
    direction_weight: float = 2.0
    guess_weight: float = 0.0

    def share(self, column: Column) -> float:
        """Return how far a column that stays is aligned: nothing up to its own start, everything at strength 1."""
        start = next(start for name, start in self.keep.items() if name in column.names)
        return 1.0 if self.strength >= 1 else max(0.0, (self.strength - start) / (1 - start)) if start < 1 else 0.0

    def weight(self, column: Column, otherwise: float) -> float:
        """Return how much a coded column counts."""
        return next((weight for name, weight in self.weights.items() if name in column.names), otherwise)

    def check(self) -> None:
        """Refuse settings that mean nothing, in one line."""
        for what, told in {"keep": self.keep, "weights": self.weights}.items():
            if not isinstance(told, Mapping):
                raise InputError(f"transport: {what} must name columns, each with a number, got {told!r}")
        for name in self.weights:
            if name in self.keep:
                raise InputError(f"transport: column {name!r} stays, so it has no weight in the codes; leave out one")
        shares = {"strength": self.strength, **{f"keep of {name!r}": start for name, start in self.keep.items()}}
        for what, share in shares.items():
            if not (isinstance(share, Real) and 0 <= share <= 1):
                raise InputError(f"transport: {what} must lie in [0, 1], got {share!r}")
        for what, least in {"codes": 1, "least": 1, "questions": 1, "crowd": 1, "directions": 0}.items():
            number = getattr(self, what)
            if isinstance(number, bool) or not (isinstance(number, int) and number >= least):
                raise InputError(f"transport: {what} must be a whole number from {least} on, got {number!r}")
        amounts: dict[str, object] = {
            what: getattr(self, what) for what in ("noise", "stay", "direction_weight", "guess_weight")
        }
        for what, amount in {**amounts, **{f"weight of {name!r}": one for name, one in self.weights.items()}}.items():
            if not (isinstance(amount, int | float) and 0 <= amount < float("inf")):
                raise InputError(f"transport: {what} must be finite and not negative, got {amount!r}")
        if not (isinstance(self.temperature, int | float) and 0 < self.temperature < float("inf")):
            raise InputError(f"transport: the temperature must be above 0 and finite, got {self.temperature!r}")
