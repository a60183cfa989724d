"""What a figure may claim: a `Certificate` holds for every observer, `AgainstAttackersTried` for those that were tried.

The two share no base class with each other or with `fedveil.core.figures.Estimate`, print differently, and
cannot be converted into one another. Only a `Certificate` ever prints the word CERTIFIED.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal

from fedveil.core.errors import InputError

Direction = Literal["upper", "lower"]

_HALVINGS = 10
"""How often α is halved: enough for a choice among 1,024 certificates."""


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
        stricter: the same bound at higher confidences, as pairs (confidence, bound), for whoever chooses the smallest
            of several certificates and has to pay for the choice; see `at_shares`.

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
    stricter: tuple[tuple[float, float], ...] = ()

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
        if any(self.confidence is None or not self.confidence < level < 1.0 for level, _ in self.stricter):
            raise InputError(f"{where}: stricter bounds need confidences above the certificate's own and below 1")
        object.__setattr__(self, "stricter", tuple((float(level), float(bound)) for level, bound in self.stricter))
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
            **({"stricter": [list(pair) for pair in self.stricter]} if self.stricter else {}),
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
                self.stricter,
            ),
        )


def at_shares(certify: Callable[[float], Certificate], confidence: float) -> Certificate:
    """Return certify(confidence) with its bounds at a half, a quarter, … of the failure probability α.

    If the smallest of m held-out certificates is chosen after they were computed, the choice is as likely to be wrong
    as any of them. If each is stated at α/m instead, all of them hold together with probability 1 − α (union bound),
    and so does the smallest. m may be known only later, so a certificate carries its bound at shares of α.
    """
    alpha = 1.0 - confidence
    levels = [1.0 - alpha / 2.0**halvings for halvings in range(1, _HALVINGS + 1)]
    return replace(certify(confidence), stricter=tuple((level, certify(level).bound) for level in levels))


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
