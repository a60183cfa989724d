"""What a figure may claim: a `Certificate` holds for every observer, `AgainstAttackersTried` for those that were tried.

The two share no base class with each other or with `fedveil.core.figures.Estimate`, print differently, and
cannot be converted into one another. Only a `Certificate` ever prints the word CERTIFIED.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

from fedveil.core.errors import InputError

Direction = Literal["upper", "lower"]


@dataclass(frozen=True)
class Certificate:
    """A bound that no observer can beat while its assumptions hold.

    Attributes:
        quantity: what is bounded: "accuracy", "balanced accuracy", "advantage", "information (bits)", "epsilon", ….
        bound: the bound.
        direction: "upper" if no observer can exceed the bound, "lower" if none can fall below it.
        assumptions: every condition that the bound rests on, by name, with its value.
        does_not_cover: what a reader might expect to be covered, but is not.
        method: how it was derived.
        citation: where the argument is published, or that it is our own.
        confidence: None for a bound that always holds; else the probability, over the draw of the held-out
            records, with which it holds.

    >>> print(Certificate("accuracy", 0.7305, "upper", {"sigma": 1.0}, ("updates",), "Gaussian channel", "textbook"))
    CERTIFIED accuracy ≤ 0.731 — assumes sigma = 1; does not cover: updates
    """

    quantity: str
    bound: float
    direction: Direction
    assumptions: Mapping[str, object] = field(hash=False)
    does_not_cover: tuple[str, ...]
    method: str
    citation: str
    confidence: float | None = None

    def __post_init__(self) -> None:
        where = f"certificate of {self.quantity or 'an unnamed quantity'}"
        if self.direction not in ("upper", "lower"):
            raise InputError(f"{where}: direction must be 'upper' or 'lower', got {self.direction!r}")
        if math.isnan(self.bound):
            raise InputError(f"{where}: the bound is not a number; check the quantities it was computed from")
        if not self.quantity or not self.method or not self.citation:
            raise InputError(f"{where}: quantity, method and citation must all be stated")
        if not self.assumptions:
            raise InputError(f"{where}: a bound without stated assumptions is no certificate; state them by name")
        if self.confidence is not None and not 0.0 < self.confidence < 1.0:
            raise InputError(f"{where}: confidence must lie strictly between 0 and 1, got {self.confidence}")
        object.__setattr__(self, "bound", float(self.bound))
        object.__setattr__(self, "assumptions", MappingProxyType(dict(self.assumptions)))
        object.__setattr__(self, "does_not_cover", tuple(self.does_not_cover))

    def __str__(self) -> str:
        sign = "≤" if self.direction == "upper" else "≥"
        level = "" if self.confidence is None else f" with confidence {self.confidence:.4g}"
        assumed = ", ".join(f"{name} = {_shown(value)}" for name, value in self.assumptions.items())
        outside = "; does not cover: " + ", ".join(self.does_not_cover) if self.does_not_cover else ""
        return f"CERTIFIED {self.quantity} {sign} {self.rounded()}{level} — assumes {assumed}{outside}"

    def rounded(self, digits: int = 3) -> str:
        """Return the bound as text, rounded to the safe side: an upper bound up, a lower bound down."""
        return rounded_outward(self.bound, self.direction, digits)

    def as_dict(self) -> dict[str, Any]:
        """Return the certificate in the form of every `--json` output."""
        return {
            "certified": True,
            "quantity": self.quantity,
            "bound": self.bound,
            "direction": self.direction,
            "confidence": self.confidence,
            "assumptions": {name: _plain(value) for name, value in self.assumptions.items()},
            "does_not_cover": list(self.does_not_cover),
            "method": self.method,
            "citation": self.citation,
        }

    def __reduce__(self) -> tuple[Any, ...]:
        # A mapping proxy cannot be pickled; the constructor builds it again.
        return (
            type(self),
            (
                self.quantity,
                self.bound,
                self.direction,
                dict(self.assumptions),
                self.does_not_cover,
                self.method,
                self.citation,
                self.confidence,
            ),
        )


def rounded_outward(bound: float, direction: Direction, digits: int = 3) -> str:
    """Return a bound as text, rounded to the safe side: an upper bound up, a lower bound down.

    >>> rounded_outward(0.7301, "upper"), rounded_outward(0.7309, "lower")
    ('0.731', '0.730')
    """
    if math.isinf(bound):
        return "∞" if bound > 0 else "−∞"
    scale = 10.0**digits
    outward = math.ceil if direction == "upper" else math.floor
    # A bound within rounding error of a printed value is that value: 0.5 + 1e-12 prints as 0.500.
    closest = round(bound * scale)
    steps = closest if abs(bound * scale - closest) < 1e-6 else outward(bound * scale)
    return f"{steps / scale:.{digits}f}"


@dataclass(frozen=True)
class AgainstAttackersTried:
    """The value of a theorem's formula whose input was only estimated: it guarantees nothing.

    Example: Theorem 2 of TAPPFL, computed from a trained attacker's cross-entropy. That cross-entropy is an
    *upper* bound on H(u|r), but the theorem needs a lower one; a better attacker can exceed the figure.

    Attributes:
        quantity: what is estimated: "accuracy", ….
        value: the estimate.
        method: the formula, and what it was computed from.
        attackers: the names of the attackers that were tried.

    >>> print(AgainstAttackersTried("accuracy", 0.731, "Fano's inequality", ("mlp", "forest")))
    accuracy about 0.731 (estimate, against the attackers tried: mlp, forest; no guarantee)
    """

    quantity: str
    value: float
    method: str
    attackers: tuple[str, ...]

    def __post_init__(self) -> None:
        if math.isnan(self.value):
            raise InputError(f"estimate of {self.quantity}: the value is not a number; check what it was computed from")
        if not self.attackers:
            raise InputError(f"estimate of {self.quantity}: name the attackers that were tried")
        object.__setattr__(self, "attackers", tuple(self.attackers))

    def __str__(self) -> str:
        tried = ", ".join(self.attackers)
        return f"{self.quantity} about {self.value:.3f} (estimate, against the attackers tried: {tried}; no guarantee)"

    def as_dict(self) -> dict[str, Any]:
        """Return the figure in the form of every `--json` output."""
        return {
            "certified": False,
            "label": "estimate, against the attackers tried",
            "quantity": self.quantity,
            "value": self.value,
            "method": self.method,
            "attackers": list(self.attackers),
        }


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, tuple | list) and value and all(isinstance(part, float) for part in value):
        return "(" + ", ".join(f"{part:.4g}" for part in value) + ")"
    return str(value)


def _plain(value: object) -> object:
    if isinstance(value, tuple | list):
        return [_plain(part) for part in value]
    return value if isinstance(value, str | bool | int | float) or value is None else str(value)
