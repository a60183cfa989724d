"""The settings by which `Transport` fits a map, and their checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Real

from fedveil.core.errors import InputError
from fedveil.shields.transport.columns import Column


@dataclass(frozen=True, kw_only=True)
class MapSettings:
    """How a map is fitted, whichever attribute it hides.

    Attributes:
        keep: columns that stay readable, in this order, each with the strength above which it is aligned itself: 0 for
            always, 1 for only at strength 1. Not for images.
        weights: how much a column counts in the codes, 0 to leave it out; by default, this depends on what it reveals
            about other columns. Not for images.
        strength: the strength s in [0, 1]; the total variation between the codes of two values of u is multiplied by 1
            − s.
        codes: the number of codes; more codes keep more of x, but reveal more of u through chance in the counts.
        temperature: the temperature of the draw among nearby codes, in units of a column's variance; for images, in
            units of a fifth of a picture's variance.
        stay: the cost, in nats, of changing a kept column's cell. Unused for images.
        least: the least number of training people of each value of u in a stratum. Unused for images.
        questions: rounds of counting for each aligned variable at its last temperature.
        noise: the standard deviation of Gaussian noise on each count; `chart_.epsilon` is what the counts spend. A
            column's cells, their shares and values are public. Not for images.
        crowd: people with the rarest value of u for each code that a stratum uses; more give a tighter certificate.
            Unused for images.
        directions: how many directions that columns have in common also count (`fedveil.shields.transport.pairs`).
        direction_weight: how much each of these directions counts.
        guess_weight: how much predictions of each column that stays, made from the rest of a record, count.
    """

    keep: Mapping[str, float] = field(default_factory=dict)
    weights: Mapping[str, float] = field(default_factory=dict)
    strength: float = 1.0
    codes: int = 300
    temperature: float = 0.05
    stay: float = 6.0
    least: int = 100
    questions: int = 100
    noise: float = 0.0
    crowd: int = 1
    directions: int = 3
    direction_weight: float = 2.0
    guess_weight: float = 0.0

    def share(self, column: Column) -> float:
        """Return how far a kept column is aligned: not at all up to its start in `keep`, completely at strength 1."""
        start = next(start for name, start in self.keep.items() if name in column.names)
        return 1.0 if self.strength >= 1 else max(0.0, (self.strength - start) / (1 - start)) if start < 1 else 0.0

    def weight(self, column: Column, default: float) -> float:
        """Return how much a coded column counts."""
        return next((weight for name, weight in self.weights.items() if name in column.names), default)

    def __post_init__(self) -> None:
        for setting, columns in {"keep": self.keep, "weights": self.weights}.items():
            if not isinstance(columns, Mapping):
                raise InputError(f"transport: {setting} must name columns, each with a number, got {columns!r}")
        for name in self.weights:
            if name in self.keep:
                raise InputError(f"transport: column {name!r} stays, so it has no weight in the codes; name it once")
        shares = {"strength": self.strength, **{f"keep of {name!r}": start for name, start in self.keep.items()}}
        for setting, share in shares.items():
            if not (isinstance(share, Real) and 0 <= share <= 1):
                raise InputError(f"transport: {setting} must lie in [0, 1], got {share!r}")
        for setting, least in {"codes": 1, "least": 1, "questions": 1, "crowd": 1, "directions": 0}.items():
            number = getattr(self, setting)
            if isinstance(number, bool) or not (isinstance(number, int) and number >= least):
                raise InputError(f"transport: {setting} must be a whole number of at least {least}, got {number!r}")
        amounts: dict[str, object] = {
            **{setting: getattr(self, setting) for setting in ("noise", "stay", "direction_weight", "guess_weight")},
            **{f"weight of {name!r}": weight for name, weight in self.weights.items()},
        }
        for setting, amount in amounts.items():
            if not (isinstance(amount, int | float) and 0 <= amount < float("inf")):
                raise InputError(f"transport: {setting} must be finite and not negative, got {amount!r}")
        if not (isinstance(self.temperature, int | float) and 0 < self.temperature < float("inf")):
            raise InputError(f"transport: the temperature must be above 0 and finite, got {self.temperature!r}")
